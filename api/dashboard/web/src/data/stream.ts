import { Problem, problemOf } from "./api";
import { EventParser, type ServerEvent } from "./sse";

/** How the stream does: for people, and for what may be shown as live. */
export interface Follower {
  /**
   * The stream is open, and what came first has been told: a server that cannot go on
   * from where the stream broke off has said by then that all is to be listed.
   */
  opened(): void;
  event(e: ServerEvent): void;
  /**
   * The stream is broken. What is known was last known to be so at a time in
   * milliseconds since 1970.
   */
  broken(problem: Problem, knownAt: number): void;
}

/** What following needs of its surroundings. */
export interface Surroundings {
  fetch: typeof fetch;
  /** Resolves after a time, or when something says that it may be worth trying earlier. */
  pause(milliseconds: number, signal: AbortSignal): Promise<void>;
  random(): number;
  /**
   * Resolves when somebody looks at the page, to a signal that is aborted once nobody
   * has for a while: browsers open few connections to a server from all of their tabs.
   */
  attended(signal: AbortSignal): Promise<AbortSignal>;
}

/** A server says at least every 15 s that it is there; so long a silence is an end, in milliseconds. */
export const silenceMax = 40_000;

/** How often it is looked for silence, in milliseconds. */
const lookEvery = 1000;

/** How long after its last word a server was surely still there, in milliseconds: up to the next one, and some more. */
const wordFor = 20_000;

const pauseMin = 500;
const pauseMax = 15_000;

/** The pause before the nth attempt in a row, in milliseconds: it doubles, and half of it is chance. */
export function backoff(attempt: number, random: number): number {
  const most = Math.min(pauseMax, pauseMin * 2 ** Math.min(attempt, 10));
  return Math.round(most / 2 + (most / 2) * random);
}

/**
 * Follows a stream of events until the signal, or until the server wants another
 * token, which is the problem that it throws. A stream that breaks is opened again
 * with the ID of the last event that was seen.
 */
export async function follow(url: string, headers: () => Record<string, string>, f: Follower, around: Surroundings, signal: AbortSignal): Promise<void> {
  let last = "";
  for (let attempt = 0; !signal.aborted; attempt++) {
    const over = new AbortController();
    const left = await around.attended(AbortSignal.any([signal, over.signal]));
    if (signal.aborted) return;
    const resume: Record<string, string> = last ? { "Last-Event-ID": last } : {};
    let problem = new Problem(0, "closed", "The server closed the stream of events.");
    const silence = new AbortController();
    let heard = Date.now();
    // By the clock on the wall: a machine that sleeps does not run timers meanwhile.
    const look = setInterval(() => {
      if (Math.abs(Date.now() - heard) > silenceMax) silence.abort();
    }, lookEvery);
    try {
      const answer = await around.fetch(url, {
        headers: { ...headers(), ...resume, Accept: "text/event-stream" }, cache: "no-store", redirect: "error",
        signal: AbortSignal.any([signal, silence.signal, left]),
      });
      if (!answer.ok || !answer.body) throw await problemOf(answer);
      let opened = false;
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        heard = Date.now();
        for (const event of parser.push(decoder.decode(value, { stream: true }))) {
          last = event.id;
          attempt = 0;
          f.event(event);
        }
        if (!opened && !parser.within) {
          opened = true;
          f.opened();
        }
      }
    } catch (cause) {
      if (signal.aborted) return;
      if (cause instanceof Problem) problem = cause;
      else if (left.aborted) problem = new Problem(0, "unattended", "Nobody has looked at this page.");
      else if (silence.signal.aborted) problem = new Problem(0, "silent", "The server has fallen silent.");
      else problem = new Problem(0, "unreachable", "The server cannot be reached.");
    } finally {
      clearInterval(look);
      over.abort();
    }
    if (problem.status === 401 || problem.status === 403) throw problem;
    f.broken(problem, Math.abs(Date.now() - heard) > wordFor ? heard : Date.now());
    if (left.aborted) attempt = -1;
    else await around.pause(Math.max(backoff(attempt, around.random()), problem.retryAfter * 1000), signal);
  }
}
