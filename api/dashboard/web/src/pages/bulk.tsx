import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { send } from "../data/api";
import { count } from "../data/attention";
import { liveStatuses, type CommandResult, type Status } from "../data/types";
import { number } from "../format";
import { store } from "../state";
import { StatusIcon } from "../ui/icons";
import { Action, Dialog, ErrorNote, Field } from "../ui/parts";
import { explain, toast } from "../ui/toasts";
import { pick, selected } from "./tasks";

/** What tasks can be told, and what that does. */
export const messages = {
  pause: ["Pause", "They stop, and stay where they are until they are told to run."],
  run: ["Run", "Those that are paused, sleeping or in fault run again."],
  sleep: ["Sleep", "They stop, and run again after a time."],
  release: ["Release", "Their nodes give them back, and any node takes them."],
  restart: ["Restart", "Their nodes stop them, and run them again."],
  kill: ["Kill", "They are ended for good."],
  delete: ["Delete", "They are stopped if they run, and nothing is kept of them. To end them and remember them, kill them instead."],
  retry: ["Retry", "They run again from the beginning, with what they were submitted with."],
  continue: ["Continue", "They run again with what they were submitted with, from the progress that they have saved."],
} as const;
export type Message = keyof typeof messages;

/** Whether a command is for tasks that have ended. */
function afterEnd(message: Message): boolean {
  return message === "retry" || message === "continue";
}

/** Whether there is no way back from a command. */
export function ends(message: Message): boolean {
  return message === "kill" || message === "delete";
}

/** Whether a command can go to a task of a status: a retry or a continuation is of what has ended, a restart of what runs, the others are for what has not ended. */
export function applies(message: Message, status: Status | undefined): boolean {
  if (message === "restart") return status === "running";
  return status !== undefined && liveStatuses.includes(status) !== afterEnd(message);
}

/** Why a command cannot go to any task of some; empty if it can. */
function unfit(message: Message, ids: string[]): string {
  if (ids.length === 0) return "The filter hides those that are selected.";
  if (ids.some((id) => applies(message, store.tasks.get(id)?.status))) return "";
  if (message === "restart") return "None of them runs.";
  return afterEnd(message) ? "None of them has ended." : "All of them have ended.";
}

/** sendMax is how many tasks go into one request. */
const sendMax = 5000;
/** previewMax is how many of them the preview names. */
const previewMax = 200;
/** awaitMax is up to how many tasks it is waited until they have done it. */
const awaitMax = 50;

/** The bar above the list with what can be done to the tasks that were picked. */
export function BulkBar({ ids, hidden, shown, ask }: { ids: string[]; hidden: number; shown: string[]; ask: (message: Message) => void }): JSX.Element {
  return (
    <div class="bulkbar" role="region" aria-label="Selected tasks">
      <strong>{count(ids.length, "task")} selected</strong>
      {hidden > 0 && <span class="muted">and {number(hidden)} that the filter hides, which {hidden === 1 ? "is" : "are"} left alone</span>}
      {ids.length < shown.length && <button type="button" class="button quiet" onClick={() => pick(shown, true)}>Select all {number(shown.length)} shown</button>}
      <button type="button" class="button quiet" onClick={() => { selected.value = new Set(); }}>Select none</button>
      <span class="grow" />
      {(Object.keys(messages) as Message[]).map((m) => (
        <Action key={m} kind={ends(m) ? "danger" : ""} blocked={unfit(m, ids)} onClick={() => ask(m)}>{messages[m][0]}</Action>
      ))}
    </div>
  );
}

/** What no dialog is needed for: it can be taken back, and asks for nothing more. */
export function atOnce(message: Message): boolean {
  return !ends(message) && message !== "sleep";
}

/** Sends a command to one task without asking, and says what became of it. */
export async function command(id: string, message: Message): Promise<void> {
  const [verb] = messages[message];
  try {
    const [result] = (await send<CommandResult[]>("POST", "v1/commands", { message, ids: [id], wait: "5s" })) ?? [];
    if (result?.result === "failed") toast(`${verb}: ${result.error ?? ""}`, true);
    else toast(result?.result === "done" ? `${verb}: done.` : `${verb}: ${id} was told; whoever holds it carries it out.`);
  } catch (cause) {
    toast(`${verb}: ${explain(cause)}`, true);
  }
}

/**
 * Shows which tasks a command goes to, sends it when told, and says what became of it.
 * They are those of the moment in which it was opened. Who closes it while it sends
 * stops it after the part that is on its way.
 */
export function CommandDialog({ ids, message, onClose }: { ids: string[]; message: Message; onClose: () => void }): JSX.Element {
  const [frozen] = useState(() => partition(message, ids));
  const [lasting, setLasting] = useState("1h");
  const [sending, setSending] = useState(0);
  const [results, setResults] = useState<CommandResult[]>();
  const [error, setError] = useState<unknown>();
  const { fit, others } = frozen;
  const [verb, effect] = messages[message];
  const left = useRef(false);
  // A layout effect ends as the window goes; another one ends after the next frame, and
  // an answer may come before that.
  useLayoutEffect(() => () => {
    left.current = true;
  }, []);
  const act = async (): Promise<void> => {
    setError(undefined);
    const got: CommandResult[] = [];
    try {
      for (let at = 0; at < fit.length && !left.current; at += sendMax) {
        setSending(at + 1);
        const part = fit.slice(at, at + sendMax);
        const body = { message, ids: part, ...(message === "sleep" ? { for: lasting } : {}), ...(fit.length <= awaitMax ? { wait: "5s" } : {}) };
        got.push(...((await send<CommandResult[]>("POST", "v1/commands", body)) ?? []));
      }
      setResults(got);
      if (left.current) toast(...summary(verb, got, fit.length));
    } catch (cause) {
      if (left.current) toast(`${verb}: ${explain(cause)}`, true);
      setError(got.length ? new Error(`${explain(cause)} — ${count(got.length, "task")} had been told before that.`) : new Error(explain(cause)));
    }
    setSending(0);
  };
  if (results) {
    const leave = (): void => {
      onClose();
      pick(results.filter((o) => o.result !== "failed").map((o) => o.id), false);
    };
    return <Result message={message} results={results} onClose={leave} />;
  }
  return (
    <Dialog title={`${verb} ${count(fit.length, "task")}?`} onClose={onClose}>
      <p>{effect}</p>
      <Breakdown ids={fit} />
      {others > 0 && <p class="note">{count(others, "task")} of the selection {leftOut(message, others === 1)} and {others === 1 ? "is" : "are"} left out.</p>}
      {message === "sleep" && (
        <Field label="For how long" for="sleep-for" hint="Such as 30s, 15m or 2h">
          <input id="sleep-for" value={lasting} onInput={(e) => setLasting(e.currentTarget.value)} aria-describedby="sleep-for-hint" />
        </Field>
      )}
      <ul class="ids" tabIndex={0} aria-label="Tasks that are told">
        {fit.slice(0, previewMax).map((id) => <li key={id}>{id}</li>)}
        {fit.length > previewMax && <li class="muted">and {number(fit.length - previewMax)} more</li>}
      </ul>
      <ErrorNote error={error} />
      <footer>
        <button type="button" class="button" onClick={onClose}>{sending ? "Stop" : "Cancel"}</button>
        <Action kind={ends(message) ? "danger solid" : "primary"} blocked={fit.length === 0 ? "None of them can be told." : sending ? "It is being sent." : ""} onClick={() => void act()}>
          {sending ? "Sending…" : `${verb} ${count(fit.length, "task")}`}
        </Action>
      </footer>
    </Dialog>
  );
}

/** What became of a command, for who has closed its window: in words, and whether that is bad. */
function summary(verb: string, results: CommandResult[], of: number): [string, boolean] {
  const failed = results.filter((o) => o.result === "failed").length;
  const told = `${verb}: ${number(results.length - failed)} of ${count(of, "task")} ${of === 1 ? "was" : "were"} told`;
  return [failed ? `${told}, ${number(failed)} could not be` : told, results.length - failed < of];
}

function partition(message: Message, ids: string[]): { fit: string[]; others: number } {
  const fit = ids.filter((id) => applies(message, store.tasks.get(id)?.status));
  return { fit, others: ids.length - fit.length };
}

function Breakdown({ ids }: { ids: string[] }): JSX.Element {
  const counts = new Map<Status, number>();
  for (const id of ids) {
    const status = store.tasks.get(id)?.status;
    if (status) counts.set(status, (counts.get(status) ?? 0) + 1);
  }
  return (
    <p class="breakdown">
      {[...counts].map(([s, n]) => <span key={s} class={`s-${s}`}><StatusIcon status={s} /> {number(n)} {s}</span>)}
    </p>
  );
}

/** Why tasks are left out of a command. */
function leftOut(message: Message, one: boolean): string {
  if (message === "restart") return one ? "does not run" : "do not run";
  return `${one ? "has" : "have"} ${afterEnd(message) ? "not ended" : "ended already"}`;
}

/** What those have done that need nobody to carry a command out, or were waited for. */
const doneBy: Partial<Record<Message, string>> = { delete: "are deleted", retry: "are submitted again", continue: "are submitted again", restart: "are stopped and run again" };

function Result({ message, results, onClose }: { message: Message; results: CommandResult[]; onClose: () => void }): JSX.Element {
  const [verb] = messages[message];
  const failed = results.filter((o) => o.result === "failed");
  const done = results.filter((o) => o.result === "done").length;
  const sent = results.length - failed.length - done;
  return (
    <Dialog title={`${verb}: ${failed.length ? `${count(failed.length, "task")} could not be told` : "done"}`} onClose={onClose}>
      <ul class="sums">
        {done > 0 && <li><b>{number(done)}</b> {doneBy[message] ?? "have done it"}</li>}
        {sent > 0 && <li><b>{number(sent)}</b> were told; whoever holds them carries it out</li>}
        {failed.length > 0 && <li class="s-failed"><b>{number(failed.length)}</b> failed</li>}
      </ul>
      {failed.length > 0 && (
        <ul class="ids" tabIndex={0} aria-label="Tasks that could not be told">
          {failed.slice(0, previewMax).map((o) => <li key={o.id}><b>{o.id}</b> {o.error}</li>)}
        </ul>
      )}
      <footer><button type="button" class="button primary" onClick={onClose}>Close</button></footer>
    </Dialog>
  );
}
