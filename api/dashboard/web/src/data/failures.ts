import { number } from "../format";
import type { Status, Task } from "./types";

/** The tasks of a type that an error has stopped, and whose last errors are of one kind. */
export interface Failures {
  type: string;
  /** The last error of the latest of them. */
  error: string;
  /** The latest first. */
  tasks: Task[];
}

/** What an error stops: for good, until the task is tried again, or until somebody tells it to run. */
const stopped: readonly Status[] = ["failed", "sleeping", "fault"];

/** How many tasks have each status, for people. */
export function byStatus(tasks: readonly Task[]): string {
  return stopped.map((s) => [s, tasks.filter((t) => t.status === s).length] as const).filter(([, n]) => n > 0).map(([s, n]) => `${number(n)} ${s}`).join(", ");
}

/** When a task failed, or had its last error. */
export function erredAt(t: Task): string {
  return t.finished_at ?? t.errors.at(-1)?.timestamp ?? "";
}

/** What an error has stopped, the largest group first; the server groups in the same way. */
export function failures(tasks: Iterable<Task>): Failures[] {
  const groups = new Map<string, Task[]>();
  for (const t of tasks) {
    if (!stopped.includes(t.status) || (t.status !== "failed" && t.errors.length === 0)) continue;
    const key = `${t.type}\n${kindOf(t.errors.at(-1)?.error ?? "")}`;
    const group = groups.get(key);
    if (group) group.push(t);
    else groups.set(key, [t]);
  }
  const all = [...groups.values()].map((group) => {
    const latest = group.sort((a, b) => erredAt(b).localeCompare(erredAt(a)))[0];
    return { type: latest?.type ?? "", error: latest?.errors.at(-1)?.error ?? "", tasks: group };
  });
  return all.sort((a, b) => b.tasks.length - a.tasks.length || a.type.localeCompare(b.type) || a.error.localeCompare(b.error));
}

/** How the errors begin of tasks that were set aside, whichever nodes died. */
const setAside = "set aside: the process that ran it died";

/**
 * The part of an error that is the same for errors of one kind: its first line, with each
 * word that has a digit replaced, except for exit codes and the like.
 */
export function kindOf(error: string): string {
  if (error.startsWith(setAside)) return setAside;
  const line = error.split("\n", 1)[0]?.slice(0, 256) ?? "";
  return line.replace(/(\b(?:code|status|signal|errno|http)[ =:]+)?\w*\d[\w.]*/gi, (found: string, kept: string | undefined) => (kept ? found : "0"));
}
