import { expect, test } from "vitest";
import { spansOf } from "./spans";

const at = (s: number) => new Date(s * 1000).toISOString();
const shown = (entries: Parameters<typeof spansOf>[0], now: number) =>
  spansOf(entries, now * 1000).map((s) => `${s.from / 1000}-${s.to / 1000}${s.open ? "…" : ""}${s.unseen ? "?" : ""} ${s.status} ${s.node}`);

test("spans go from claim to claim, whoever held the task", () => {
  expect(shown([
    { at: at(10), event: "claimed", node: "n1", token: 3 },
    { at: at(15), event: "command", detail: "pause" },
    { at: at(20), event: "lost", node: "n1", token: 3, interruption: true },
    { at: at(22), event: "claimed", node: "n2", token: 9 },
    { at: at(30), event: "sleeping", node: "n2", token: 9 },
  ], 40)).toEqual(["10-20 running n1", "20-22 pending ", "22-30 running n2", "30-40… sleeping n2"]);
});

test("of what nobody saw end it is not known how long it ran", () => {
  expect(shown([
    { at: at(10), event: "claimed", node: "n1", token: 3 },
    { at: at(20), event: "lost", node: "n1", token: 3, unseen: true },
    { at: at(20), event: "claimed", node: "n2", token: 9 },
  ], 40)).toEqual(["10-20? running n1", "20-40… running n2"]);
});

test("what has ended goes on no longer, and order does not matter", () => {
  expect(shown([{ at: at(20), event: "completed", node: "n1" }, { at: at(10), event: "claimed", node: "n1" }], 99)).toEqual(["10-20 running n1"]);
  expect(shown([], 99)).toEqual([]);
});
