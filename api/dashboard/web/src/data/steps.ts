import type { Task } from "./types";

/** A step in the life of a task: one that is over, the one it is in, or the one that comes next. */
export interface Step {
  name: string;
  when: "past" | "now" | "next";
  /** When it began, or is due; missing if that is not known. */
  at?: string;
  /** Where, why, or for what. */
  note?: string;
}

/** Which of how many runs this is, or will be the next; empty for a task without errors or with no end to them. */
export function attemptOf(t: Task): string {
  if (t.failures_max) return `attempt ${(t.failures ?? 0) + 1} of ${t.failures_max}`;
  return t.failures ? `attempt ${t.failures + 1}` : "";
}

/** The life of a task in steps; waits is why it is not running. */
export function stepsOf(t: Task, waits: string, now: number): Step[] {
  const steps: Step[] = [step("Submitted", "past", t.submitted_at)];
  if (t.finished_at) {
    if (t.claimed_at) steps.push(step("Claimed", "past", t.claimed_at, t.node));
    return [...steps, step(t.status, "now", t.finished_at, errorOf(t))];
  }
  const runs = step("Runs", "next", undefined, attemptOf(t));
  switch (t.status) {
    case "running":
      return [...steps, step("Runs", "now", t.claimed_at, [t.node && `on ${t.node}`, attemptOf(t)].filter(Boolean).join(", ")), step("Ends", "next")];
    case "sleeping":
      return [...steps, step("Sleeps", "now", t.errors.at(-1)?.timestamp, errorOf(t)), { ...runs, ...(t.until ? { at: t.until } : {}) }];
    case "paused":
      return [...steps, step("Paused", "now", undefined, t.node && `on ${t.node}`), { ...runs, note: "when it is told to" }];
    case "fault":
      return [...steps, step("In fault", "now", t.errors.at(-1)?.timestamp, errorOf(t)), runs];
    case "blocked":
      return [...steps, step("Waits", "now", undefined, waits), runs];
    default:
      return Date.parse(t.not_before ?? "") > now
        ? [...steps, step("Waits", "now", undefined, "for its time"), { ...runs, at: t.not_before ?? "" }]
        : [...steps, step("Pending", "now", undefined, waits), runs];
  }
}

function step(name: string, when: Step["when"], at?: string | null, note = ""): Step {
  return { name, when, ...(at ? { at } : {}), ...(note ? { note } : {}) };
}

function errorOf(t: Task): string {
  return t.errors.at(-1)?.error.split("\n", 1)[0] ?? "";
}
