import { afterEach, describe, expect, test, vi } from "vitest";
import { nextOf, offsetOf } from "./api";
import { backoff, follow, silenceMax, type Surroundings } from "./stream";

/** A server that answers one request after the other as told, and then stops the test. */
function served(answers: ((signal?: AbortSignal | null) => Response | Promise<Response>)[], more: Partial<Surroundings> = {}) {
  const asked: Record<string, string>[] = [];
  const log: string[] = [];
  const known: number[] = [];
  const stop = new AbortController();
  const around: Surroundings = {
    fetch: async (_: unknown, init?: RequestInit) => {
      asked.push(init?.headers as Record<string, string>);
      const answer = answers.shift();
      if (!answer) {
        stop.abort();
        throw new DOMException("", "AbortError");
      }
      return answer(init?.signal);
    },
    pause: async (ms) => void log.push(`pause ${ms}`),
    random: () => 1,
    attended: async () => new AbortController().signal,
    ...more,
  };
  const done = follow("http://x/", () => ({ Authorization: "Bearer t" }), {
    opened: () => log.push("open"),
    event: (e) => log.push(`${e.kind} ${e.data}`),
    broken: (p, knownAt) => {
      known.push(Date.now() - knownAt);
      log.push(`broken ${p.code}`);
    },
  }, around, stop.signal);
  return { done, asked, log, known };
}

const events = (text: string) => () => new Response(text);

const bytes = (text: string) => new TextEncoder().encode(text);

/** An answer whose body comes in pieces. */
function pieces(...texts: string[]): Response {
  return new Response(new ReadableStream({
    pull: (c) => {
      const text = texts.shift();
      if (text === undefined) c.close();
      else c.enqueue(bytes(text));
    },
  }));
}

/** A stream that says one thing, and then nothing until it is broken off. */
function silent(signal?: AbortSignal | null): Response {
  return new Response(new ReadableStream({
    start: (c) => {
      c.enqueue(bytes(":\n\n"));
      signal?.addEventListener("abort", () => c.error(signal.reason));
    },
  }));
}

afterEach(() => vi.useRealTimers());

describe("following the events", () => {
  test("resumes after the last event that was seen, with the token", async () => {
    const s = served([events("id: 4.s.1\nevent: task\ndata: {}\n\nid: 5.s.2\nda"), events("id: 6.s.3\nevent: task\ndata: 2\n\n")]);
    await s.done;
    expect(s.asked.map((h) => h["Last-Event-ID"])).toEqual([undefined, "4.s.1", "6.s.3"]);
    expect(s.asked.every((h) => h["Authorization"] === "Bearer t")).toBe(true);
    expect(s.log).toEqual(["task {}", "broken closed", "pause 500", "task 2", "open", "broken closed", "pause 500"]);
  });
  test("waits longer after each failure, and as long as the server says", async () => {
    const away = () => Promise.reject(new TypeError("failed to fetch"));
    const busy = () => new Response('{"code":"viewers","detail":"full"}', { status: 429, headers: { "Retry-After": "7" } });
    const s = served([away, away, busy]);
    await s.done;
    expect(s.log).toEqual(["broken unreachable", "pause 500", "broken unreachable", "pause 1000", "broken viewers", "pause 7000"]);
  });
  test("ends when another token is wanted", async () => {
    const s = served([() => new Response('{"code":"unauthorized"}', { status: 401 })]);
    await expect(s.done).rejects.toMatchObject({ status: 401, code: "unauthorized" });
    expect(s.log).toEqual([]);
  });
  test("is open once it is known whether all has to be listed", async () => {
    const s = served([events(":\n\n"), events('id: 1.s.1\nevent: list\ndata: {"reason":"gap"}\n\n'), () => pieces("id: 2.s.1\n", 'event: list\ndata: {"reason":"gap"}\n\n')]);
    await s.done;
    expect(s.log.filter((l) => /open|list/.test(l))).toEqual(["open", 'list {"reason":"gap"}', "open", 'list {"reason":"gap"}', "open"]);
  });
  test("ends a stream that has fallen silent while the machine slept, and says since when nothing is known", async () => {
    vi.useFakeTimers();
    const began = Date.now();
    const s = served([silent]);
    await vi.advanceTimersByTimeAsync(silenceMax - 1000);
    expect(s.log).toEqual(["open"]);
    vi.setSystemTime(began + 3_600_000); // no timer has run meanwhile
    await vi.advanceTimersByTimeAsync(1000);
    await s.done;
    expect(s.log).toEqual(["open", "broken silent", "pause 500"]);
    expect(s.known).toEqual([3_601_000]);
  });
  test("rests while nobody looks, and goes on at once", async () => {
    vi.useFakeTimers();
    const left = new AbortController();
    const looks = [left.signal, new AbortController().signal];
    const s = served([silent], { attended: async () => looks.shift() ?? AbortSignal.abort() });
    await vi.advanceTimersByTimeAsync(1000);
    left.abort();
    await s.done;
    expect(s.log).toEqual(["open", "broken unattended"]);
    expect(s.asked.length).toBe(2);
  });
  test("pauses are bounded and spread by chance", () => {
    for (let n = 0; n < 100; n++) {
      expect(backoff(n, 0)).toBeGreaterThanOrEqual(250);
      expect(backoff(n, 1)).toBeLessThanOrEqual(15_000);
      expect(backoff(n, 1)).toBe(2 * backoff(n, 0));
    }
  });
});

test("clocks that are apart are told by the Date of an answer", () => {
  const now = Date.parse("2026-01-02T03:04:05.600Z");
  expect(offsetOf("Fri, 02 Jan 2026 04:04:05 GMT", now)).toBe(3_599_400);
  expect(offsetOf("Fri, 02 Jan 2026 02:04:05 GMT", now)).toBe(-3_600_600);
  for (const close of ["Fri, 02 Jan 2026 03:04:05 GMT", "Fri, 02 Jan 2026 03:04:03 GMT", null, "soon"]) expect(offsetOf(close, now)).toBe(0);
});

test("the next page is found in the Link header, below any prefix", () => {
  expect(nextOf('</fleet/v1/tasks?continue=a%7Cb&limit=2>; rel="next"')).toBe("a|b");
  expect(nextOf('<https://h/v1/tasks?continue=x>; rel="next"')).toBe("x");
  expect(nextOf(null)).toBeUndefined();
});
