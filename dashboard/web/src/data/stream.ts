import { Problem, problemOf } from "./api";
import { EventParser, type ServerEvent } from "./sse";

/** How the stream does: for people, and for what may be shown as live. */
export interface Follower {
  /** The stream is open. */
  opened(): void;
  event(e: ServerEvent): void;
  /** The stream is broken, and is opened again in that many milliseconds. */
  broken(problem: Problem, retryIn: number): void;
}

/** What following needs of its surroundings. */
export interface Surroundings {
  fetch: typeof fetch;
  /** Resolves after a time, or when something says that it may be worth trying earlier. */
  pause(milliseconds: number, signal: AbortSignal): Promise<void>;
  random(): number;
}

/** A server says at least every 15 s that it is there; so long a silence is an end. */
export const silenceMax = 40_000;

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
    const resume: Record<string, string> = last ? { "Last-Event-ID": last } : {};
    let problem = new Problem(0, "closed", "The server closed the stream of events.");
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), silenceMax);
    try {
      const answer = await around.fetch(url, {
        headers: { ...headers(), ...resume, Accept: "text/event-stream" }, cache: "no-store", redirect: "error",
        signal: AbortSignal.any([signal, silence.signal]),
      });
      if (!answer.ok || !answer.body) throw await problemOf(answer);
      f.opened();
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      const parser = new EventParser();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), silenceMax);
        for (const event of parser.push(decoder.decode(value, { stream: true }))) {
          last = event.id;
          attempt = 0;
          f.event(event);
        }
      }
    } catch (cause) {
      if (signal.aborted) return;
      if (cause instanceof Problem) problem = cause;
      else if (silence.signal.aborted) problem = new Problem(0, "silent", "The server has fallen silent.");
      else problem = new Problem(0, "unreachable", "The server cannot be reached.");
    } finally {
      clearTimeout(timer);
    }
    if (problem.status === 401 || problem.status === 403) throw problem;
    const wait = Math.max(backoff(attempt, around.random()), problem.retryAfter * 1000);
    f.broken(problem, wait);
    await around.pause(wait, signal);
  }
}
