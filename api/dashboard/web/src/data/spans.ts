import type { HistoryEntry, Status } from "./types";

/** A time in which a task was somewhere, for the drawing above its history. */
export interface Span {
  from: number;
  to: number;
  /** Who held it under which token; empty and 0 while nobody did. */
  node: string;
  token: number;
  /** Its state in that time, as far as the history tells. */
  status: Status;
  /** It goes on. */
  open: boolean;
  /** It was so at its beginning, and nobody saw for how long. */
  unseen: boolean;
}

const states = new Set<string>(["sleeping", "paused", "fault", "completed", "failed", "killed"]);
const ended = new Set<string>(["completed", "failed", "killed"]);

/** The spans of a history, the oldest first, up to now if the task has not ended. */
export function spansOf(entries: readonly HistoryEntry[], now: number): Span[] {
  const spans: Span[] = [];
  let node = "";
  let token = 0;
  let status: Status = "pending";
  let from: number | undefined;
  const close = (to: number, open: boolean, unseen = false): void => {
    if (from !== undefined && (to > from || open)) spans.push({ from, to: Math.max(from, to), node, token, status, open, unseen });
  };
  for (const e of [...entries].sort((a, b) => Date.parse(a.at) - Date.parse(b.at))) {
    const at = Date.parse(e.at);
    if (Number.isNaN(at)) continue;
    if (e.event === "command") continue;
    close(at, false, e.unseen ?? false);
    from = at;
    if (e.event === "claimed") {
      node = e.node ?? "";
      token = e.token ?? 0;
      status = "running";
    } else if (states.has(e.event)) {
      status = e.event as Status;
      node = e.node ?? "";
      token = e.token ?? 0;
      if (ended.has(e.event)) from = undefined;
    } else {
      node = "";
      token = 0;
      status = "pending";
    }
  }
  close(now, true);
  return spans;
}
