import { count } from "./attention";
import type { Plan } from "./types";

/** How many nodes a note names. */
const named = 4;

/** Says what becomes of the tasks of a node that is drained, by the plan without it. */
export function drainOf(plan: Plan, node: string): { moves: string; nowhere: string } {
  const own = plan.moves.filter((m) => m.from === node);
  const taken = own.filter((m) => m.to !== "");
  const sum = (of: typeof own): number => of.reduce((n, m) => n + m.tasks, 0);
  const names = taken.slice(0, named).map((m) => `${m.tasks} to ${m.to}`);
  if (taken.length > named) names.push(`${sum(taken.slice(named))} to ${count(taken.length - named, "more node")}`);
  const waiting = own.length > taken.length ? sum(own) - sum(taken) : 0;
  return {
    moves: taken.length > 0 ? `${count(sum(taken), "task")} would move: ${names.join(", ")}.` : "No task would move.",
    nowhere: waiting > 0 ? `${count(waiting, "task")} would wait: no other node can take ${waiting === 1 ? "it" : "them"}.` : "",
  };
}
