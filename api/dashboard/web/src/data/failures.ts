import type { Task } from "./types";

/** The failed tasks of a type whose last errors are of one kind. */
export interface Failures {
  type: string;
  /** The last error of the latest of them. */
  error: string;
  /** The latest first. */
  tasks: Task[];
}

/** What failed, the largest group first; the server groups in the same way. */
export function failures(tasks: Iterable<Task>): Failures[] {
  const groups = new Map<string, Task[]>();
  for (const t of tasks) {
    if (t.status !== "failed") continue;
    const key = `${t.type}\n${kindOf(t.errors.at(-1)?.error ?? "")}`;
    const group = groups.get(key);
    if (group) group.push(t);
    else groups.set(key, [t]);
  }
  const all = [...groups.values()].map((group) => {
    const latest = group.sort((a, b) => (b.finished_at ?? "").localeCompare(a.finished_at ?? ""))[0];
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
