import { type Status, type Task, statuses } from "./types";

/** What the list of tasks shows, as it stands in the URL. */
export interface Filter {
  statuses: Status[];
  types: string[];
  nodes: string[];
  /** Text that the ID contains; with a ^ before it, that it begins with. */
  text: string;
  /** Text that the last error contains. */
  error: string;
  /** Tags that a task has, each as key=value, or as a key whose value does not matter. */
  tags: string[];
  sort: SortKey;
  descending: boolean;
}

export const sortKeys = ["id", "status", "type", "node", "priority", "errors", "changed"] as const;
export type SortKey = (typeof sortKeys)[number];

export const noFilter: Filter = { statuses: [], types: [], nodes: [], text: "", error: "", tags: [], sort: "id", descending: false };

export function parseFilter(query: URLSearchParams): Filter {
  const sort = query.get("sort") ?? "";
  const key = sort.replace(/^-/, "") as SortKey;
  return {
    statuses: statuses.filter((s) => query.getAll("status").includes(s)),
    types: query.getAll("type"),
    nodes: query.getAll("node"),
    text: query.get("q") ?? "",
    error: query.get("error") ?? "",
    tags: query.getAll("tag").filter(isTag),
    sort: sortKeys.includes(key) ? key : "id",
    descending: sort.startsWith("-") && sortKeys.includes(key),
  };
}

/** The query of a filter; what is as usual is left out. */
export function queryOf(f: Filter): string {
  const q = new URLSearchParams();
  for (const s of f.statuses) q.append("status", s);
  for (const t of f.types) q.append("type", t);
  for (const n of f.nodes) q.append("node", n);
  if (f.text) q.set("q", f.text);
  if (f.error) q.set("error", f.error);
  for (const t of f.tags) q.append("tag", t);
  if (f.sort !== "id" || f.descending) q.set("sort", (f.descending ? "-" : "") + f.sort);
  return q.toString();
}

export function isEmpty(f: Filter): boolean {
  return f.statuses.length + f.types.length + f.nodes.length + f.text.length + f.error.length + f.tags.length === 0;
}

/** Whether a text names a tag: it has a key. */
export function isTag(text: string): boolean {
  return /^[^=]/.test(text);
}

/** Whether a task has a tag; without a value, any value of its key will do. */
function hasTag(t: Task, key: string, value: string): boolean {
  return t.tags !== undefined && Object.hasOwn(t.tags, key) && (!value || t.tags[key] === value);
}

/** The tasks that a filter shows, in its order. */
export function select(tasks: Iterable<Task>, f: Filter): Task[] {
  const statusSet = new Set<string>(f.statuses);
  const typeSet = new Set(f.types);
  const nodeSet = new Set(f.nodes);
  const prefix = f.text.startsWith("^") ? f.text.slice(1) : "";
  const text = prefix ? "" : f.text.toLowerCase();
  const error = f.error.toLowerCase();
  const tags = f.tags.map((tag) => (/^([^=]*)=?(.*)$/s.exec(tag) ?? []).slice(1) as [string, string]);
  const found: Task[] = [];
  for (const t of tasks) {
    if (statusSet.size && !statusSet.has(t.status)) continue;
    if (typeSet.size && !typeSet.has(t.type)) continue;
    if (nodeSet.size && !nodeSet.has(t.node)) continue;
    if (prefix && !t.id.startsWith(prefix)) continue;
    if (text && !t.id.toLowerCase().includes(text)) continue;
    if (error && !t.errors.at(-1)?.error.toLowerCase().includes(error)) continue;
    if (!tags.every(([key, value]) => hasTag(t, key, value))) continue;
    found.push(t);
  }
  const order = orders[f.sort];
  const sign = f.descending ? -1 : 1;
  return found.sort((a, b) => sign * (order(a, b) || compare(a.id, b.id)));
}

const rank = new Map(statuses.map((s, i) => [s, i]));

const orders: Record<SortKey, (a: Task, b: Task) => number> = {
  id: () => 0,
  status: (a, b) => (rank.get(a.status) ?? 0) - (rank.get(b.status) ?? 0),
  type: (a, b) => compare(a.type, b.type),
  node: (a, b) => compare(a.node, b.node),
  priority: (a, b) => a.priority - b.priority,
  errors: (a, b) => errorCount(a) - errorCount(b),
  changed: (a, b) => compare(changedAt(a), changedAt(b)),
};

/** How many errors are known. */
export function errorCount(t: Task): number {
  return Math.max(t.errors.length, t.failures ?? 0);
}

/** The latest time that a task tells of. */
export function changedAt(t: Task): string {
  return t.finished_at ?? t.claimed_at ?? t.submitted_at ?? "";
}

export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
