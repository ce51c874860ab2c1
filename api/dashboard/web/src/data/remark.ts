import { whyNobody } from "./attention";
import { attemptOf } from "./steps";
import type { FleetNode, Task } from "./types";

/** How many of the tasks that one waits for are named. */
const namedMax = 2;

/**
 * What a list says of a task beside its status: why it does not run, or its last error.
 * Of a task that should be claimed any moment it says nothing.
 */
export function remark(t: Task, nodes: readonly FleetNode[], now: number, time: (at: string) => string): string {
  const error = (t.errors.at(-1)?.error ?? "").split("\n", 1)[0] ?? "";
  const tried = [attemptOf(t), error].filter(Boolean).join(": ");
  switch (t.status) {
    case "pending":
      return Date.parse(t.not_before ?? "") > now ? `not before ${time(t.not_before ?? "")}` : whyNobody(t.type, nodes);
    case "blocked":
      return t.failed_needs?.length
        ? `needs ${names(t.failed_needs, t.failed_needs_count)}, which failed`
        : `waits for ${names(t.blocked_by, t.blocked_by_count)}`;
    case "sleeping":
      return [t.until && `until ${time(t.until)}`, tried].filter(Boolean).join(", ");
    case "running":
      return error && tried;
    default:
      return error;
  }
}

/** The first ones of some tasks, and how many there are of them. */
function names(first: readonly string[], count = first.length): string {
  return first.slice(0, namedMax).join(", ") + others(first, namedMax, count);
}

/**
 * What follows the first named ones of some tasks: how many more there are, or, if one stands
 * for all below a job, how many there are in all.
 */
export function others(first: readonly string[], named: number, count: number): string {
  const more = count - Math.min(named, first.length);
  if (!first.some((id) => id.endsWith("|*"))) return more > 0 ? ` and ${more} more` : "";
  return `${first.length > named ? ", …" : ""} (${count} task${count === 1 ? "" : "s"})`;
}
