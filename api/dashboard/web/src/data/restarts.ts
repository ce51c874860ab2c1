import { duration } from "../format";
import type { Restarts } from "./types";

/** How often a command was started again, in words. */
export function restartsText(r: Restarts, now: number): string {
  const row = r.in_a_row > 0 && r.since ? `, of them ${r.in_a_row} in a row for ${duration(now - Date.parse(r.since))}` : "";
  const wait = Date.parse(r.next) - now;
  return `${r.count}${row}, the last after: ${r.last_end}${wait > 0 ? `; again in ${duration(wait)}` : ""}`;
}
