import { describe, expect, test } from "vitest";
import { nextOf } from "./api";
import { backoff, follow, type Surroundings } from "./stream";

/** A server that answers one request after the other as told, and then stops the test. */
function served(answers: (() => Response | Promise<Response>)[]) {
  const asked: Record<string, string>[] = [];
  const log: string[] = [];
  const stop = new AbortController();
  const around: Surroundings = {
    fetch: async (_: unknown, init?: RequestInit) => {
      asked.push(init?.headers as Record<string, string>);
      const answer = answers.shift();
      if (!answer) {
        stop.abort();
        throw new DOMException("", "AbortError");
      }
      return answer();
    },
    pause: async (ms) => void log.push(`pause ${ms}`),
    random: () => 1,
  };
  const done = follow("http://x/", () => ({ Authorization: "Bearer t" }), {
    opened: () => log.push("open"),
    event: (e) => log.push(`${e.kind} ${e.data}`),
    broken: (p) => log.push(`broken ${p.code}`),
  }, around, stop.signal);
  return { done, asked, log };
}

const events = (text: string) => () => new Response(text);

describe("following the events", () => {
  test("resumes after the last event that was seen, with the token", async () => {
    const s = served([events("id: 4.s.1\nevent: task\ndata: {}\n\nid: 5.s.2\nda"), events("id: 6.s.3\nevent: task\ndata: 2\n\n")]);
    await s.done;
    expect(s.asked.map((h) => h["Last-Event-ID"])).toEqual([undefined, "4.s.1", "6.s.3"]);
    expect(s.asked.every((h) => h["Authorization"] === "Bearer t")).toBe(true);
    expect(s.log).toEqual(["open", "task {}", "broken closed", "pause 500", "open", "task 2", "broken closed", "pause 500"]);
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
  test("pauses are bounded and spread by chance", () => {
    for (let n = 0; n < 100; n++) {
      expect(backoff(n, 0)).toBeGreaterThanOrEqual(250);
      expect(backoff(n, 1)).toBeLessThanOrEqual(15_000);
      expect(backoff(n, 1)).toBe(2 * backoff(n, 0));
    }
  });
});

test("the next page is found in the Link header, below any prefix", () => {
  expect(nextOf('</fleet/v1/tasks?continue=a%7Cb&limit=2>; rel="next"')).toBe("a|b");
  expect(nextOf('<https://h/v1/tasks?continue=x>; rel="next"')).toBe("x");
  expect(nextOf(null)).toBeUndefined();
});
