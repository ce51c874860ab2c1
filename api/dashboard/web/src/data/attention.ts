import { short } from "../format";
import type { FleetNode, Health, Task, TaskType } from "./types";

/** Something that an operator should look at. */
export interface Finding {
  level: "bad" | "warn";
  title: string;
  detail: string;
  /** Where to look, as a hash of the page. */
  href: string;
}

/** A task that nobody has taken for so long is worth a word, in milliseconds. */
const waitingMax = 10_000;

/** How many restarts in a row are a loop. */
const restartsMany = 5;

/** How the error of a task begins that was found to kill its nodes. */
const setAside = "set aside: ";

/** Why no node takes tasks of a type, empty if one does or should. */
export function whyNobody(type: string, nodes: readonly FleetNode[]): string {
  const able = nodes.filter((n) => n.types.includes(type) || n.pulls?.includes(type));
  if (nodes.length === 0) return "no node is there";
  if (able.length === 0) return `no node runs the type ${type || "“”"}`;
  const open = able.filter((n) => n.types.includes(type));
  if (open.length === 0) return "they wait to be pulled";
  const reasons = new Set(open.map(closed));
  return reasons.has("") ? "" : `every node that runs it is ${[...reasons].sort().join(" or ")}`;
}

/** What a node is that does not renew its session. */
const gone = "dead or cut off";

/** Why a node takes no tasks; empty if it does. */
export function closed(n: FleetNode): string {
  if (n.problem) return "unreadable";
  if (n.silent_since) return gone;
  if (n.away_until) return "away";
  if (n.draining) return "draining";
  if (n.returning) return "stopping";
  if (n.cordon) return "cordoned";
  if (n.frozen) return "frozen";
  if (n.probation) return "on probation";
  if (n.overloaded) return "overloaded";
  return "";
}

/** Where a node is shown. */
export function nodeHref(name: string): string {
  return `#/node/${encodeURIComponent(name)}`;
}

/** When a node that is away is to be back, and what waits for it. */
export function whenBack(until: string, tasks: number, now: number): string {
  const left = Date.parse(until) - now;
  if (left <= 0) return `it was to be back ${short(-left)} ago, and nothing is kept for it any more`;
  return `it is to be back within ${short(left)}, and ${count(tasks, "task")} ${tasks === 1 ? "is" : "are"} kept for it`;
}

/** What needs attention, the worst first. */
export function attention(tasks: Iterable<Task>, nodes: readonly FleetNode[], health: Health | undefined, now: number, types: readonly TaskType[] = []): Finding[] {
  const waiting = new Map<string, number>();
  const erring = new Map<string, number>();
  const poison: Task[] = [];
  const looping: Task[] = [];
  let failed = 0;
  let fault = 0;
  let stuck = 0;
  for (const t of tasks) {
    if (t.status === "pending" && isWaiting(t, now)) add(waiting, t.type);
    if (t.status === "failed") failed++;
    if (t.status === "failed" && t.errors.at(-1)?.error.startsWith(setAside)) poison.push(t);
    if (t.status === "fault") fault++;
    if (t.status === "sleeping" && t.errors.length > 0) add(erring, t.type);
    if (t.failed_needs?.length) stuck++;
    if (t.restarts && t.restarts.in_a_row >= restartsMany) looping.push(t);
  }
  const found: Finding[] = [];
  if (health && !health.broker.ok) {
    found.push({ level: "bad", title: "The broker does not answer", detail: health.broker.problem ?? "", href: "#/" });
  }
  const unclaimed = nodes.some((n) => n.away_until && n.tasks > 0) ? "kept for a node that is away, or waiting to be claimed" : "waiting to be claimed";
  for (const [type, n] of waiting) {
    if (types.some((t) => t.pause && t.type === type)) continue;
    const why = whyNobody(type, nodes);
    found.push({
      level: why ? "bad" : "warn", title: `${count(n, "task")} of type ${type || "“”"} that nobody runs`,
      detail: why || unclaimed, href: `#/tasks?status=pending&type=${encodeURIComponent(type)}`,
    });
  }
  for (const t of poison) {
    found.push({ level: "bad", title: `Task ${t.id} is set aside: nodes died that ran it`, detail: t.errors.at(-1)?.error ?? "", href: `#/task/${encodeURIComponent(t.id)}` });
  }
  if (fault) found.push({ level: "bad", title: `${count(fault, "task")} in fault`, detail: "stopped by an error, until told to run", href: "#/tasks?status=fault" });
  if (failed) found.push({ level: "bad", title: `${count(failed, "task")} failed`, detail: "given up, by error", href: "#/failures" });
  if (stuck) found.push({ level: "warn", title: `${count(stuck, "task")} blocked for good`, detail: "what they need has failed", href: "#/tasks?status=blocked" });
  if (looping[0]) {
    const [first] = looping;
    found.push({
      level: "warn", title: looping.length === 1 ? `Task ${first.id} keeps ending and is started again` : `${count(looping.length, "task")} keep ending and are started again`,
      detail: `${looping.length === 1 ? "" : `${first.id}: `}${first.restarts?.last_end ?? ""}`, href: `#/task/${encodeURIComponent(first.id)}`,
    });
  }
  for (const [type, n] of erring) {
    found.push({
      level: "warn", title: `${count(n, "task")} of type ${type || "“”"} to be retried`, detail: "sleeping after an error",
      href: `#/tasks?status=sleeping&type=${encodeURIComponent(type)}&sort=-errors`,
    });
  }
  for (const t of types) {
    if (t.pause) found.push({ level: "warn", title: `Type ${t.type || "“”"} is paused`, detail: t.pause.reason || "its tasks run again when it is resumed", href: `#/tasks?type=${encodeURIComponent(t.type)}` });
  }
  for (const n of nodes) {
    const why = closed(n);
    if (why === gone) found.push({ level: "bad", title: `Node ${n.name} is ${gone}`, detail: `it last renewed its session ${short(now - Date.parse(n.silent_since ?? ""))} ago, and what it holds may not run`, href: nodeHref(n.name) });
    else if (n.away_until) found.push({ level: "warn", title: `Node ${n.name} is away`, detail: whenBack(n.away_until, n.tasks, now), href: nodeHref(n.name) });
    else if (why) found.push({ level: n.problem ? "bad" : "warn", title: `Node ${n.name} is ${why}`, detail: n.problem ?? (n.cordon?.reason || (n.probation ? "it has died repeatedly, and gets no tasks for now" : "it takes no tasks")), href: nodeHref(n.name) });
    else if (n.behind) found.push({ level: "warn", title: `Node ${n.name} was ${n.behind} behind, or more`, detail: "it saw late what others do, within the last half minute", href: nodeHref(n.name) });
    else if (n.slow_renewal) found.push({ level: "warn", title: `Node ${n.name} needed ${n.slow_renewal} to renew its session`, detail: "within the last ten minutes; it stops its tasks if that takes too long", href: nodeHref(n.name) });
  }
  for (const s of health?.sessions ?? []) {
    if (s.margin_seconds < s.full_seconds / 3) {
      found.push({ level: "bad", title: `Node ${s.node} is losing touch`, detail: `its handlers stop in ${s.margin_seconds.toFixed(1)} s`, href: nodeHref(s.node) });
    }
  }
  return found.sort((a, b) => (a.level === b.level ? 0 : a.level === "bad" ? -1 : 1));
}

function isWaiting(t: Task, now: number): boolean {
  const since = Math.max(Date.parse(t.submitted_at ?? "") || 0, Date.parse(t.not_before ?? "") || 0);
  return now - since > waitingMax;
}

function add(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}

/** A number of things, in words. */
export function count(n: number, thing: string): string {
  return `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
}
