import { computed, signal } from "@preact/signals";

/**
 * Where the page is, behind the # of the address: the server has one page only, and
 * every other path stays refused.
 */
const hash = signal(location.hash);

const read = (): void => {
  hash.value = location.hash;
};
window.addEventListener("hashchange", read);
window.addEventListener("popstate", read);

export const route = computed(() => {
  const [, path = "", query = ""] = /^#?\/?([^?]*)\??(.*)$/s.exec(hash.value) ?? [];
  const [page = "", ...rest] = path.split("/");
  return { page: page || "overview", rest: rest.map(decode).join("/"), query: new URLSearchParams(query) };
});

/** What a part of the address is, or as it is if it is not escaped as it should be. */
export function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function go(to: string): void {
  location.hash = to;
}

/** Changes the query without an entry in the history for each letter that is typed. */
export function setQuery(query: string): void {
  const path = location.hash.split("?", 1)[0] || "#/";
  history.replaceState(null, "", location.pathname + location.search + path + (query ? `?${query}` : ""));
  read();
}

export function taskHref(id: string): string {
  return `#/task/${encodeURIComponent(id)}`;
}
