import { batch, signal } from "@preact/signals";
import { clockOffset, get, headers, hooks, listAll, Problem, token, urlOf } from "./data/api";
import { continued, Series } from "./data/series";
import { Store } from "./data/store";
import { follow } from "./data/stream";
import { type Election, type FleetNode, type Health, type Identity, type Past, type Role, type Task, statuses } from "./data/types";
import { decode } from "./router";

/** How up to date what is shown is. */
export interface Connection {
  state: "connecting" | "live" | "reconnecting" | "stale" | "signed-out";
  /** Since when what is shown may be old, in milliseconds since 1970; zero while it is not. */
  since: number;
  detail: string;
  /** No token would help. */
  closed?: boolean;
}

/** Rises with every frame in which something has changed; what reads the store reads it. */
export const tick = signal(0);
/** As tick, but a few times a second at most: for what looks at all tasks. */
export const slow = signal(0);
/** The present time in milliseconds, by the second. */
export const clock = signal(Date.now());
/** What the present time is for the server, by whose clock all that it tells is dated. */
export const serverClock = signal(Date.now());
export const connection = signal<Connection>({ state: "connecting", since: 0, detail: "" });
export const identity = signal<Identity | undefined>(undefined);
export const health = signal<Health | undefined>(undefined);
/** Rises with every sample of the charts. */
export const sampled = signal(0);

export const store = new Store(schedule);

const chartStatuses = statuses.filter((s) => s !== "completed" && s !== "killed");
/** What the charts show: the last hour, or the last day. */
export const lastHour = new Series([...chartStatuses, "claims", "moves"], 10_000, 360);
export const lastDay = new Series([...chartStatuses, "claims", "moves"], 300_000, 288);
export const latency = new Series(["seconds"], 5000, 720);

let scheduled = false;
let slowAt = 0;
let slowTimer = 0;
/** slowMin is the least time between two rises of slow, in milliseconds. */
const slowMin = 200;

/** Has one frame drawn for however many changes come before it. */
function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    batch(() => {
      tick.value++;
      riseSlowly();
    });
  });
}

function riseSlowly(): void {
  if (slowTimer) return;
  const wait = slowAt + slowMin - performance.now();
  if (wait <= 0) {
    slowAt = performance.now();
    slow.value++;
    return;
  }
  slowTimer = window.setTimeout(() => {
    slowTimer = 0;
    slowAt = performance.now();
    slow.value++;
  }, wait);
}

const order: Record<Role, number> = { view: 1, operate: 2, admin: 3 };

/** Why the caller may not do what needs a role; empty if it may. */
export function refusal(role: Role): string {
  const me = identity.value;
  if (!me) return "Who you are is not known yet.";
  if (me.read_only) return "This server is read-only.";
  if (order[me.role] < order[role]) return `This needs the role ${role}; yours is ${me.role}.`;
  return "";
}

let following = new AbortController();
const waiting = new Set<() => void>();

/** Ends all pauses. */
function wake(): void {
  for (const end of [...waiting]) end();
}

/** Waits, but no longer than until the browser says that it is online, or is looked at, again. */
function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      waiting.delete(end);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    waiting.add(end);
    signal.addEventListener("abort", end, { once: true });
  });
}

/** hiddenMax is for how long a page that nobody sees keeps its stream, in milliseconds. */
const hiddenMax = 10_000;

/** Resolves once the page is seen, to a signal that is aborted when it was not for long. */
async function attended(signal: AbortSignal): Promise<AbortSignal> {
  const hidden = (): boolean => document.visibilityState === "hidden";
  while (hidden() && !signal.aborted) await pause(hiddenMax, signal);
  const left = new AbortController();
  let timer = 0;
  const changed = (): void => {
    clearTimeout(timer);
    if (hidden()) timer = window.setTimeout(() => left.abort(), hiddenMax);
  };
  document.addEventListener("visibilitychange", changed, { signal: AbortSignal.any([signal, left.signal]) });
  return left.signal;
}

function lost(detail: string, knownAt = Date.now()): void {
  const since = connection.value.since || knownAt;
  connection.value = { state: Date.now() - since > staleAfter ? "stale" : "reconnecting", since, detail };
}

/** staleAfter is how long a connection may be away before that is called stale, in milliseconds. */
const staleAfter = 10_000;

/** Begins to follow the server, anew if that was begun before. */
export async function start(): Promise<void> {
  following.abort();
  following = new AbortController();
  const { signal } = following;
  streaming = false;
  connection.value = { ...connection.value, state: "connecting", detail: "" };
  void whoami(signal);
  void poll(signal);
  try {
    await follow(urlOf("v1/events"), headers, {
      opened: () => {
        streaming = true;
        settle();
        void whoami(signal); // it may be another server, or one with other tokens
      },
      event: (e) => event(e.kind, e.data, signal),
      broken: (problem, knownAt) => {
        streaming = false;
        lost(problem.message, knownAt);
      },
    }, { fetch: window.fetch.bind(window), pause, attended, random: Math.random }, signal);
  } catch (cause) {
    if (cause instanceof Problem) signOut(cause);
    else throw cause;
  }
}

/** Calls what is shown live if the stream is open, all was listed, and the server has no trouble. */
function settle(): void {
  if (streaming && store.listed && !listing && !trouble) connection.value = { state: "live", since: 0, detail: "" };
}

function signOut(cause?: Problem): void {
  following.abort();
  const since = connection.value.since || (store.listed ? Date.now() : 0);
  const closed = cause?.status === 403;
  connection.value = { state: "signed-out", since, closed, detail: closed ? cause.message : token.get() ? "The server does not accept this token." : "" };
}

/** Takes a token, and begins again with it; false if it can be none. */
export function signIn(value: string): boolean {
  if (!token.set(value.trim())) return false;
  identity.value = undefined;
  void start();
  return true;
}

hooks.onUnauthorized = () => signOut();
hooks.onForbidden = () => void whoami(following.signal); // the role is another than it was

let asking = new AbortController();

/** Asks who the caller is, until there is an answer or it is asked again. */
async function whoami(signal: AbortSignal): Promise<void> {
  asking.abort();
  asking = new AbortController();
  const until = AbortSignal.any([signal, asking.signal]);
  while (!until.aborted) {
    try {
      identity.value = await get<Identity>("v1/whoami", until);
      return;
    } catch (cause) {
      if (cause instanceof Problem && (cause.status === 401 || cause.status === 403)) return;
      await pause(2000, until);
    }
  }
}

/** Whether the stream of events is open. */
let streaming = false;
let listing: AbortController | undefined;
/** When the server said last that it cannot follow the broker; zero once the broker answers again. */
let trouble = 0;

function event(kind: string, data: string, signal: AbortSignal): void {
  if (kind === "list") {
    void list(signal);
    return;
  }
  if (kind === "trouble") {
    trouble = Date.now();
    lost(`The server cannot follow the broker: ${(JSON.parse(data) as { detail: string }).detail}`);
    return;
  }
  store.apply(kind, JSON.parse(data));
}

/** Lists everything, once for each time that the stream says so, until it works. */
async function list(signal: AbortSignal): Promise<void> {
  listing?.abort();
  const mine = new AbortController();
  listing = mine;
  const until = AbortSignal.any([signal, mine.signal]);
  store.startListing();
  for (let wait = 500; !until.aborted; wait = Math.min(10_000, wait * 2)) {
    try {
      const [tasks, nodes, elections] = await Promise.all([
        listAll<Task>("v1/tasks", until), get<FleetNode[]>("v1/nodes", until), get<Election[]>("v1/elections", until),
      ]);
      if (until.aborted) return;
      store.finishListing({ tasks, nodes, elections });
      listing = undefined;
      settle();
      void recall(signal);
      return;
    } catch (cause) {
      if (until.aborted) return;
      lost(cause instanceof Error ? cause.message : String(cause));
      await pause(cause instanceof Problem ? Math.max(wait, cause.retryAfter * 1000) : wait, until);
    }
  }
}

/** pollEvery is how often the health is asked for, in milliseconds; it is one small answer for all. */
const pollEvery = 5000;

/** probeFor is how old the measurement of the broker may be, in milliseconds, with some room. */
const probeFor = 4000;

async function poll(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    if (document.visibilityState === "visible" || health.value === undefined) await ask(signal);
    await new Promise((resolve) => setTimeout(resolve, pollEvery));
  }
}

async function ask(signal: AbortSignal): Promise<void> {
  try {
    const h = await get<Health>("v1/health", signal);
    health.value = h;
    latency.push(Date.now(), { seconds: h.broker.latency_seconds });
    if (trouble && h.broker.ok && Date.now() - trouble > probeFor) {
      trouble = 0; // the stream does not tell of the end of trouble
      settle();
    }
  } catch {
    // The stream of events says that the server is away.
  }
}

function sample(): void {
  const now = Date.now();
  clock.value = now;
  serverClock.value = now + clockOffset;
  const c = connection.value;
  if (c.state === "reconnecting" && now - c.since > staleAfter) connection.value = { ...c, state: "stale" };
  if (!store.listed || c.state !== "live") return;
  for (const s of [lastHour, lastDay]) {
    if (s.due(now)) s.push(now, { ...store.counts, claims: store.claims, moves: store.moves });
  }
  sampled.value++;
}

/** Begins the charts with what the server has sampled; if it cannot say, they begin now. */
async function recall(signal: AbortSignal): Promise<void> {
  try {
    const [fine, coarse] = await get<[Past, Past]>("v1/charts", signal);
    for (const [series, past] of [[lastHour, fine], [lastDay, coarse]] as const) {
      const values = { ...past.tasks, claims: continued(past.claims, store.claims), moves: continued(past.moves, store.moves) };
      series.take({ times: past.at, values }, clockOffset);
    }
    sampled.value++;
  } catch {
    // They are not worth an alarm.
  }
}

/** Moves a token from the address bar into the tab's memory, and begins. */
export function boot(): void {
  takeToken();
  window.addEventListener("hashchange", () => {
    if (takeToken()) void start();
  });
  window.addEventListener("online", wake);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState !== "visible") return;
    wake();
    if (!following.signal.aborted) void whoami(following.signal);
  });
  setInterval(sample, 1000);
  void start();
}

function takeToken(): boolean {
  const found = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!found) return false;
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  token.set(decode(found));
  window.dispatchEvent(new PopStateEvent("popstate"));
  return true;
}
