import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { Problem } from "../data/api";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
let next = 1;
const shownFor = 6000;

/** Says what became of something, for a moment; what went wrong stays longer. */
export function toast(text: string, bad = false): void {
  const id = next++;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad }];
  setTimeout(() => dismiss(id), bad ? shownFor * 3 : shownFor);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((t) => t.id !== id);
}

/** Does something, and says what became of it; whether it worked. */
export async function attempt(what: string, does: () => Promise<unknown>): Promise<boolean> {
  try {
    await does();
    toast(what);
    return true;
  } catch (cause) {
    toast(explain(cause), true);
    return false;
  }
}

/** An error in words. */
export function explain(cause: unknown): string {
  if (cause instanceof Problem && cause.code === "role") return "Your token does not allow this.";
  return cause instanceof Error ? cause.message : String(cause);
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((t) => (
        <div key={t.id} class={`toast ${t.bad ? "bad" : ""}`}>
          <span>{t.text}</span>
          <button type="button" class="button quiet" aria-label="Dismiss" onClick={() => dismiss(t.id)}>✕</button>
        </div>
      ))}
    </div>
  );
}
