import type { Job, Status, Task } from "../data/types";

/** A job in the drawing, or several completed ones that were folded into one. */
export interface Vertex {
  id: string;
  label: string;
  type: string;
  status: Status;
  node: string;
  /** How many jobs were folded into it; zero for a job. */
  folded: number;
}

/** A line from what has to be done first to what waits for it. */
export interface Edge {
  from: string;
  to: string;
  /** It is not the parent but another need. */
  need: boolean;
}

export interface Drawing {
  vertices: Vertex[];
  edges: Edge[];
}

/** A row of the list of jobs. */
export interface Row {
  job: Job;
  depth: number;
  children: number;
  /** Its place among the jobs of its parent, from 1, and how many those are. */
  position: number;
  siblings: number;
  /** How many of the jobs below it are completed, and how many there are. */
  done: number;
  total: number;
}

const separator = "|";
/** What follows the ID of a job in a need of all below it. */
const allBelow = "|*";

/** The name and type of a job by its part of the path; undefined if no job has it. */
export function segmentOf(segment: string): { name: string; type: string } | undefined {
  const at = segment.lastIndexOf("_");
  if (at <= 0 || at === segment.length - 1 || /[ /\\|]/.test(segment)) return undefined;
  return { name: segment.slice(0, at), type: segment.slice(at + 1) };
}

/** The job that a task is, by its ID alone; undefined if it is none. */
export function jobOf(t: Task): Job | undefined {
  const segments = t.id.split(separator);
  const own = segmentOf(segments.at(-1) ?? "");
  if (!own || own.type !== t.type || segments.some((s) => !segmentOf(s))) return undefined;
  return { ...t, path: segments.join("/"), name: own.name, parent: segments.slice(0, -1).join(separator), needs: t.blocked_by };
}

/** The parent's ID; empty for a root. */
export function parentOf(id: string): string {
  const at = id.lastIndexOf(separator);
  return at < 0 ? "" : id.slice(0, at);
}

/** A job that failed or was killed has ended, too, but is nothing to leave out or to count as done. */
export function isCompleted(status: Status): boolean {
  return status === "completed";
}

/**
 * What is drawn of jobs. Folding puts completed jobs with nothing but completed ones below
 * them into one vertex for each parent; the needs are those of the last listing.
 */
export function drawingOf(jobs: readonly Job[], needs: ReadonlyMap<string, readonly string[]>, fold: boolean): Drawing {
  const children = childrenOf(jobs);
  const settled = new Map<string, boolean>();
  const isSettled = (j: Job): boolean => {
    const known = settled.get(j.id);
    if (known !== undefined) return known;
    const all = isCompleted(j.status) && (children.get(j.id) ?? []).every(isSettled);
    settled.set(j.id, all);
    return all;
  };
  const vertices: Vertex[] = [];
  const edges: Edge[] = [];
  const at = new Map<string, string>();
  const weigh = (j: Job): number => 1 + (children.get(j.id) ?? []).reduce((sum, c) => sum + weigh(c), 0);
  const into = (j: Job, id: string): void => {
    at.set(j.id, id);
    for (const c of children.get(j.id) ?? []) into(c, id);
  };
  const visit = (list: readonly Job[], parent: string): void => {
    const completed = fold ? list.filter(isSettled) : [];
    if (completed.length > 1 || (completed.length === 1 && completed[0] && weigh(completed[0]) > 1)) {
      const id = `${parent}${separator}*`;
      const n = completed.reduce((sum, j) => sum + weigh(j), 0);
      vertices.push({ id, label: `${n} completed`, type: "", status: "completed", node: "", folded: n });
      if (parent) edges.push({ from: parent, to: id, need: false });
      for (const j of completed) into(j, id);
    }
    for (const j of list) {
      if (at.has(j.id)) continue;
      at.set(j.id, j.id);
      vertices.push({ id: j.id, label: j.name, type: j.type, status: j.status, node: j.node, folded: 0 });
      if (parent) edges.push({ from: parent, to: j.id, need: false });
      visit(children.get(j.id) ?? [], j.id);
    }
  };
  visit(children.get("") ?? [], "");
  const drawn = new Set(edges.map((e) => `${e.from}\n${e.to}`));
  for (const j of jobs) {
    for (const need of needs.get(j.id) ?? []) {
      const from = at.get(need.endsWith(allBelow) ? need.slice(0, -allBelow.length) : need);
      const to = at.get(j.id);
      if (!from || !to || from === to || drawn.has(`${from}\n${to}`)) continue;
      drawn.add(`${from}\n${to}`);
      edges.push({ from, to, need: true });
    }
  }
  return { vertices, edges };
}

/** The jobs by their parent, each list by path. A job whose parent is gone is a root. */
export function childrenOf(jobs: readonly Job[]): Map<string, Job[]> {
  const there = new Set(jobs.map((j) => j.id));
  const children = new Map<string, Job[]>();
  for (const j of [...jobs].sort((a, b) => (a.id < b.id ? -1 : 1))) {
    let parent = j.parent;
    while (parent && !there.has(parent)) parent = parentOf(parent);
    const list = children.get(parent) ?? [];
    list.push(j);
    children.set(parent, list);
  }
  return children;
}

/** The rows of the list, a job before those below it; what is below closed ones is left out. */
export function rowsOf(jobs: readonly Job[], closed: ReadonlySet<string>): Row[] {
  const children = childrenOf(jobs);
  const rows: Row[] = [];
  const visit = (list: readonly Job[], depth: number, shown: boolean): { done: number; total: number } => {
    const sum = { done: 0, total: 0 };
    list.forEach((job, i) => {
      const below = children.get(job.id) ?? [];
      const row: Row = { job, depth, children: below.length, position: i + 1, siblings: list.length, done: 0, total: 0 };
      if (shown) rows.push(row);
      const part = visit(below, depth + 1, shown && !closed.has(job.id));
      row.done = part.done;
      row.total = part.total;
      sum.done += part.done + (isCompleted(job.status) ? 1 : 0);
      sum.total += part.total + 1;
    });
    return sum;
  };
  visit(children.get("") ?? [], 1, true);
  return rows;
}
