/** An error as the API answers it (RFC 9457), or that of a request that got no answer. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly field = "",
    readonly limit = "",
    /** In how many seconds to try again; zero if the server does not say. */
    readonly retryAfter = 0,
  ) {
    super(detail);
  }
}

const tokenKey = "windlass-token";

/** Where the token is kept: as long as the tab is open, and for no other tab. */
export const token = {
  get: (): string => sessionStorage.getItem(tokenKey) ?? "",
  /** False, and nothing is kept, for what no header can have: every request would fail with it. */
  set: (value: string): boolean => {
    if (!/^[\x21-\x7e]+$/.test(value)) return false;
    sessionStorage.setItem(tokenKey, value);
    return true;
  },
};

/** clockOffset is by how much the server's clock is ahead of that of this machine, in milliseconds. */
export let clockOffset = 0;

/** offsetMin is what the Date of an answer, which has whole seconds and was on its way, can be wrong by. */
const offsetMin = 3000;

/** How far the clocks are apart, by the Date of an answer; zero if that is not known, or little. */
export function offsetOf(date: string | null, now: number): number {
  const offset = Date.parse(date ?? "") - now;
  return Math.abs(offset) > offsetMin ? offset : 0;
}

/** The URL of a path of the API, which is beside the page whatever its prefix. */
export function urlOf(path: string): string {
  return new URL(path, location.origin + location.pathname).href;
}

export function headers(): Record<string, string> {
  const value = token.get();
  return value ? { Authorization: `Bearer ${value}` } : {};
}

/** The problem that an answer is, whatever stands in it. */
export async function problemOf(answer: Response): Promise<Problem> {
  const retry = Number(answer.headers.get("Retry-After")) || 0;
  try {
    const p = (await answer.json()) as { detail?: string; code?: string; field?: string; limit?: string };
    return new Problem(answer.status, p.code ?? "", p.detail ?? answer.statusText, p.field, p.limit, retry);
  } catch {
    return new Problem(answer.status, "", `the server answered ${answer.status} ${answer.statusText}`, "", "", retry);
  }
}

/** They are told when the server wants another token, and when the caller may not do what it tried to. */
export const hooks = { onUnauthorized: (): void => {}, onForbidden: (): void => {} };

/** answerMax is how long an answer may take, in milliseconds: longer than a server works on it. What never comes would be waited for. */
const answerMax = 60_000;

async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = { method, headers: headers(), cache: "no-store", credentials: "same-origin", redirect: "error" };
  const late = AbortSignal.timeout(answerMax);
  init.signal = signal ? AbortSignal.any([signal, late]) : late;
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { ...headers(), "Content-Type": "application/json" };
  }
  let answer: Response;
  try {
    answer = await fetch(urlOf(path), init);
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw late.aborted ? new Problem(0, "late", "The server does not answer; what was asked may yet be done.") : new Problem(0, "unreachable", "The server cannot be reached.");
  }
  clockOffset = offsetOf(answer.headers.get("Date"), Date.now());
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  if (problem.status === 401) hooks.onUnauthorized();
  if (problem.code === "role" || problem.code === "read_only") hooks.onForbidden();
  throw problem;
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await request("GET", path, undefined, signal)).json() as Promise<T>;
}

/** Sends a change; what it answers, or undefined for nothing. */
export async function send<T>(method: "POST" | "PATCH", path: string, body?: unknown): Promise<T | undefined> {
  const answer = await request(method, path, body);
  return answer.status === 204 ? undefined : ((await answer.json()) as T);
}

/** pageMax is the largest page that a server gives unless its limits were lowered. */
const pageMax = 10_000;

/** All pages of a list of tasks; each costs the server a whole listing, so they are large. */
export async function listAll<T>(path: string, signal: AbortSignal): Promise<T[]> {
  const all: T[] = [];
  let limit = `limit=${pageMax}`;
  for (let next = ""; ; ) {
    let answer: Response;
    try {
      answer = await request("GET", `${path}?${limit}${next}`, undefined, signal);
    } catch (cause) {
      if (cause instanceof Problem && cause.field === "limit" && limit !== "limit=0") {
        limit = "limit=0"; // this server's pages are smaller; take what it gives
        continue;
      }
      throw cause;
    }
    all.push(...((await answer.json()) as T[]));
    const continues = nextOf(answer.headers.get("Link"));
    if (continues === undefined) return all;
    next = `&continue=${encodeURIComponent(continues)}`;
  }
}

/** Where the next page continues, by a Link header; undefined on the last one. */
export function nextOf(link: string | null): string | undefined {
  const target = /<([^>]*)>;\s*rel="next"/.exec(link ?? "")?.[1];
  if (target === undefined) return undefined;
  return new URLSearchParams(target.split("?", 2)[1]).get("continue") ?? undefined;
}
