import { expect, test } from "vitest";
import { bytes, duration, json, seconds, short } from "./format";

test("durations have the units that matter", () => {
  expect([0, 999, 1500, 59_000, 61_000, 7_260_000, 200_000_000].map(duration)).toEqual(
    ["0 ms", "999 ms", "1.5 s", "59 s", "1 min 1 s", "2 h 1 min", "2 d 7 h"]);
  expect([-5, 59_900, 3_599_000, 172_799_000, 172_800_000].map(short)).toEqual(["0s", "59s", "59m", "47h", "2d"]);
  expect([0.0012, 0.25, 3.21].map(seconds)).toEqual(["1.2 ms", "250 ms", "3.2 s"]);
});

test("sizes have the unit that matters", () => {
  expect([0, 1023, 1536, 70_254_592, 2 ** 31].map(bytes)).toEqual(["0 B", "1023 B", "2 KiB", "67.0 MiB", "2.0 GiB"]);
});

test("what is nested very deep is not indented", () => {
  expect(json({ a: [1, '[{"\\'] })).toBe('{\n  "a": [\n    1,\n    "[{\\"\\\\"\n  ]\n}');
  expect(json(undefined)).toBe("");
  const deep = JSON.parse("[".repeat(5000) + "]".repeat(5000));
  expect(json(deep).length).toBeLessThan(20_000);
  const wide = json(Array.from({ length: 200 }, () => ({ a: "}" })));
  expect(wide).toContain("\n  {\n");
});
