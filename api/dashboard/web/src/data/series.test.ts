import { expect, test } from "vitest";
import { Series, rates } from "./series";

test("a series stays bounded and covers everything, its latest sample included", () => {
  const s = new Series(["a"], 1000, 10);
  for (let i = 0; i < 1000; i++) {
    const now = i * 1000;
    if (s.due(now)) s.push(now, { a: i });
    expect(s.times.length).toBeLessThan(10);
    expect(s.values["a"]?.length).toBe(s.times.length);
  }
  expect(s.times.at(-1)).toBeGreaterThan(999 - s.step / 1000);
  expect(s.times[0]).toBeLessThan(s.step / 1000);
});

test("rates are per second, and none without a time between", () => {
  expect(rates([0, 2, 4, 4], [0, 10, 10, 20])).toEqual([0, 5, 0, 0]);
  expect(rates([], [])).toEqual([]);
});
