import type { Task } from "./types";

/** How long after a claim the history may lack the interruption before it, in milliseconds. */
const settles = 10_000;
/** How many tasks are asked about in one request. */
const askMax = 100;
/** How many counts are remembered: tasks that are gone stay among them. */
const knownMax = 10_000;

interface Known {
  token: number;
  count: number;
  /** When it was asked. */
  at: number;
}

/**
 * How often the tasks that are seen were interrupted. The stream of changes does not have
 * it, so it is asked for: of a task once, and again after each claim.
 */
export class Interruptions {
  private readonly known = new Map<string, Known>();
  private readonly wanted = new Map<string, number>();

  constructor(private readonly ask: (ids: string[]) => Promise<Record<string, number>>) {}

  /** The latest count of a task, undefined if it is not known; has it asked for if it may have changed. */
  of(t: Task, now: number): number | undefined {
    const k = this.known.get(t.id);
    const settled = Date.parse(t.claimed_at ?? "") + settles;
    if (!k || k.token !== t.token || (k.at < settled && now >= settled)) this.wanted.set(t.id, t.token);
    return k?.count;
  }

  /** Asks for what is wanted; whether there was anything. A server that refuses is asked again when the tasks are seen again. */
  async fetch(now: number): Promise<boolean> {
    const wanted = [...this.wanted];
    this.wanted.clear();
    for (let at = 0; at < wanted.length; at += askMax) {
      const part = wanted.slice(at, at + askMax);
      if (this.known.size >= knownMax) this.known.clear();
      const counts = await this.ask(part.map(([id]) => id));
      for (const [id, token] of part) this.known.set(id, { token, count: counts[id] ?? 0, at: now });
    }
    return wanted.length > 0;
  }
}
