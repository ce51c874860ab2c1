import { computed, effect, signal } from "@preact/signals";

export const themes = ["system", "light", "dark"] as const;
export type Theme = (typeof themes)[number];

const key = "windlass-theme";

function stored(): Theme {
  const value = localStorage.getItem(key);
  return themes.find((t) => t === value) ?? "system";
}

export const theme = signal<Theme>(stored());

const dark = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(dark.matches);
dark.addEventListener("change", () => {
  systemIsDark.value = dark.matches;
});

/** What is shown, light or dark. */
export const scheme = computed(() => (theme.value === "system" ? (systemIsDark.value ? "dark" : "light") : theme.value));

effect(() => {
  document.documentElement.dataset["theme"] = scheme.value;
  if (theme.value === "system") localStorage.removeItem(key);
  else localStorage.setItem(key, theme.value);
});

/** Whether the page is as narrow as a phone. */
const narrowQuery = matchMedia("(max-width: 720px)");
export const narrow = signal(narrowQuery.matches);
narrowQuery.addEventListener("change", () => {
  narrow.value = narrowQuery.matches;
});
