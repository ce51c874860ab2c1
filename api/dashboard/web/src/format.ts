/** How long something is, in its two largest units. */
export function duration(milliseconds: number): string {
  const s = Math.max(0, milliseconds) / 1000;
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${Math.floor(s % 60)} s`;
  const h = Math.floor(m / 60);
  if (h < 48) return `${h} h ${m % 60} min`;
  return `${Math.floor(h / 24)} d ${h % 24} h`;
}

/** As duration, in one unit, for columns. */
export function short(milliseconds: number): string {
  const s = Math.max(0, milliseconds) / 1000;
  if (s < 60) return `${Math.floor(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 172_800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86_400)}d`;
}

const times = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});
const hours = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

export function time(text: string | number | null | undefined): string {
  if (text === null || text === undefined || text === "") return "–";
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : times.format(at);
}

export function hour(at: number): string {
  return hours.format(at);
}

export function number(n: number): string {
  return n.toLocaleString("en");
}

/** A latency or margin. */
export function seconds(s: number): string {
  return s < 1 ? `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms` : `${s.toFixed(1)} s`;
}

/** A size in the largest unit that it has at least one of. */
export function bytes(n: number): string {
  if (n >= 2 ** 30) return `${(n / 2 ** 30).toFixed(1)} GiB`;
  if (n >= 2 ** 20) return `${(n / 2 ** 20).toFixed(1)} MiB`;
  return n >= 2 ** 10 ? `${Math.round(n / 2 ** 10)} KiB` : `${n} B`;
}

/** How deep JSON may be nested that is indented: deeper down there is more space than text. */
const indentedMax = 100;

export function json(value: unknown): string {
  try {
    const text = JSON.stringify(value) ?? "";
    return nesting(text) > indentedMax ? text : JSON.stringify(value, null, 2) ?? "";
  } catch {
    return "(nested too deep to be shown)"; // the browser's own limit
  }
}

/** How deep a text of JSON is nested. */
function nesting(text: string): number {
  let depth = 0, most = 0;
  for (const part of text.match(/"(?:[^"\\]|\\.)*"|[[{]|[\]}]/g) ?? []) {
    if (part === "[" || part === "{") {
      most = Math.max(most, ++depth);
    } else if (part === "]" || part === "}") {
      depth--;
    }
  }
  return most;
}
