import { expect, test } from "vitest";
import { restartsText } from "./restarts";

const now = Date.parse("2026-01-02T03:04:05Z");
const last = { last_end: "exited: exit code 1", last_at: "2026-01-02T03:04:00Z" };

test("restarts say how many, since when, why, and when the next is", () => {
  expect(restartsText({ ...last, count: 9, in_a_row: 7, since: "2026-01-02T03:03:05Z", next: "2026-01-02T03:04:35Z" }, now)).toMatch(/^9, of them 7 in a row for .*, the last after: exited: exit code 1; again in 30/);
  expect(restartsText({ ...last, count: 9, in_a_row: 0, next: "2026-01-02T03:04:01Z" }, now)).toBe("9, the last after: exited: exit code 1");
});
