import { signal } from "@preact/signals";
import { go } from "../router";

export const helpShown = signal(false);

/** What g and a letter lead to. */
export const places: Record<string, [string, string]> = {
  o: ["#/", "Overview"], t: ["#/tasks", "Tasks"], n: ["#/nodes", "Nodes"], r: ["#/trees", "Trees"], e: ["#/elections", "Elections"], s: ["#/submit", "Submit a task"],
};

let leading = 0;
/** leadFor is how long the letter after g may take, in milliseconds. */
const leadFor = 1500;

/** Whether a key is meant for a field that text is typed into. */
export function typing(e: KeyboardEvent): boolean {
  const t = e.target;
  return t instanceof HTMLElement && (t.matches("input:not([type=checkbox]), textarea, select") || t.isContentEditable);
}

/** Keys that work on every page; those of lists are the lists'. */
export function listenForKeys(): void {
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || document.querySelector("dialog[open]")) return;
    if (Date.now() - leading < leadFor) {
      leading = 0;
      const place = places[e.key];
      if (place) {
        e.preventDefault();
        go(place[0]);
      }
      return;
    }
    if (e.key === "g") leading = Date.now();
    else if (e.key === "?") helpShown.value = true;
    else if (e.key === "/") focus(e, "[data-filter]");
    else if ((e.key === "j" || e.key === "k") && !(e.target instanceof HTMLElement && e.target.closest("[data-list]"))) focus(e, "[data-list]");
  });
}

function focus(e: KeyboardEvent, selector: string): void {
  const found = document.querySelector<HTMLElement>(selector);
  if (!found) return;
  e.preventDefault();
  found.focus();
}
