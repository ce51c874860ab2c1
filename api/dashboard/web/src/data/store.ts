import { type Election, type FleetNode, type Status, type Task, statuses } from "./types";

/** Everything that a listing answers. */
export interface Listing {
  tasks: Task[];
  nodes: FleetNode[];
  elections: Election[];
}

type Gone = { gone: true };

/** Tombstones of tasks, bounded: see Store.goneClaims. */
const goneClaimsMax = 2000;

/**
 * What is known of the fleet. It is listed once and then kept by events, each of
 * which is the whole of what something is now. Events that arrive while a list is
 * read win over the list: they are as new, or newer.
 */
export class Store {
  tasks = new Map<string, Task>();
  nodes = new Map<string, FleetNode>();
  elections = new Map<string, Election>();
  /** How many tasks have each status; kept with every change. */
  counts = emptyCounts();
  /** Claims, and those of them that changed the node, seen since the page was opened. */
  claims = 0;
  moves = 0;
  /** Whether a list was read since the start. */
  listed = false;
  /** How many tasks have each type. */
  types = new Map<string, number>();
  /** Rises whenever a task appears or goes: rows, not only their contents, change. */
  shape = 0;

  private since: { tasks: Map<string, Task | null>; nodes: Map<string, FleetNode | null>; elections: Map<string, Election | null> } | null = null;
  /**
   * The claims of tasks that are gone. One that ends may be told as gone for a moment
   * before it is told as completed, with the same token: that is no new claim.
   */
  private goneClaims = new Map<string, { token: number; node: string }>();
  /** The nodes that tasks had until they were given back or lost; nobody has them now. */
  private left = new Map<string, string>();

  constructor(private readonly changed: () => void = () => {}) {}

  /** Begins a listing; events from now on are newer than what it will answer. */
  startListing(): void {
    this.since = { tasks: new Map(), nodes: new Map(), elections: new Map() };
  }

  /** Replaces everything by a listing and what has happened since it was begun. */
  finishListing(listing: Listing): void {
    this.tasks = merged(listing.tasks.map((t) => [t.id, t]), this.since?.tasks);
    this.nodes = merged(listing.nodes.map((n) => [n.name, n]), this.since?.nodes);
    this.elections = merged(listing.elections.map((e) => [e.name, e]), this.since?.elections);
    this.since = null;
    this.left.clear();
    this.counts = emptyCounts();
    this.types.clear();
    for (const t of this.tasks.values()) this.count(t, 1);
    this.listed = true;
    this.shape++;
    this.changed();
  }

  /** Takes an event of the stream; false if it is of no known kind. */
  apply(kind: string, data: unknown): boolean {
    switch (kind) {
      case "task":
        this.task(data as Task & Partial<Gone>);
        break;
      case "node":
        entity(this.nodes, this.since?.nodes, data as FleetNode & Partial<Gone>);
        break;
      case "election":
        entity(this.elections, this.since?.elections, data as Election & Partial<Gone>);
        break;
      default:
        return false;
    }
    this.changed();
    return true;
  }

  private task(now: Task & Partial<Gone>): void {
    const was = this.tasks.get(now.id);
    if (was) this.count(was, -1);
    this.since?.tasks.set(now.id, now.gone ? null : now);
    if (now.gone) {
      if (this.tasks.delete(now.id)) this.shape++;
      if (was?.token) this.bury(was);
      this.left.delete(now.id);
      return;
    }
    this.count(now, 1);
    if (!was) this.shape++;
    this.tasks.set(now.id, now);
    const before = was ?? this.goneClaims.get(now.id);
    this.goneClaims.delete(now.id);
    if (was?.node && !now.node) this.left.set(now.id, was.node);
    if (this.listed && now.token !== 0 && now.token !== (before?.token ?? 0)) {
      const node = before?.node || this.left.get(now.id);
      this.claims++;
      if (node && node !== now.node) this.moves++;
      this.left.delete(now.id);
    }
  }

  private count(t: Task, by: number): void {
    this.counts[t.status] += by;
    const n = (this.types.get(t.type) ?? 0) + by;
    if (n > 0) this.types.set(t.type, n);
    else this.types.delete(t.type);
  }

  private bury(t: Task): void {
    this.goneClaims.set(t.id, { token: t.token, node: t.node });
    if (this.goneClaims.size > goneClaimsMax) {
      const oldest = this.goneClaims.keys().next().value;
      if (oldest !== undefined) this.goneClaims.delete(oldest);
    }
  }
}

function entity<T extends { name: string }>(all: Map<string, T>, since: Map<string, T | null> | undefined, now: T & Partial<Gone>): void {
  since?.set(now.name, now.gone ? null : now);
  if (now.gone) all.delete(now.name);
  else all.set(now.name, now);
}

function merged<T>(listed: [string, T][], since: Map<string, T | null> | undefined): Map<string, T> {
  const all = new Map(listed);
  for (const [name, value] of since ?? []) {
    if (value === null) all.delete(name);
    else all.set(name, value);
  }
  return all;
}

export function emptyCounts(): Record<Status, number> {
  return Object.fromEntries(statuses.map((s) => [s, 0])) as Record<Status, number>;
}
