import { expect, test } from "vitest";
import { Series, continued, rates, withGaps } from "./series";

test("a series has the latest samples in its steps", () => {
  const s = new Series(["a"], 10_000, 6);
  for (let i = 0; i <= 100; i++) {
    const now = i * 1000;
    if (s.due(now)) s.push(now, { a: i });
  }
  expect(s.times).toEqual([50, 60, 70, 80, 90, 100]);
  expect(s.values["a"]).toEqual([50, 60, 70, 80, 90, 100]);
});

test("a series begins with what the server has sampled, by the clock of this machine", () => {
  const s = new Series(["a", "b"], 10_000, 6);
  s.push(100_000, { a: 1, b: 2 });
  s.take({ times: [95, 105], values: { a: [3, 4] } }, 5000);
  expect(s.times).toEqual([90, 100]);
  expect(s.values).toEqual({ a: [3, 4], b: [0, 0] });
  s.take({ times: [200], values: { a: [9], b: [9] } }, 0); // another server, which has run for less time
  expect(s.values["a"]).toEqual([3, 4]);
});

test("a total goes on from that of the server", () => {
  expect(continued([10, 40, 50], 7)).toEqual([-33, -3, 7]);
  expect(continued([], 7)).toEqual([]);
});

test("where samples are missing there is nothing", () => {
  expect(withGaps([[0, 10, 20, 60, 70], [5, 5, 5, 9, 9]], 10_000)).toEqual([[0, 10, 20, 40, 60, 70], [5, 5, 5, null, 9, 9]]);
  expect(withGaps([[0, 20], [1, 2]], 10_000)).toEqual([[0, 20], [1, 2]]);
  expect(withGaps([], 10_000)).toEqual([]);
});

test("rates are per second, and none without a time between", () => {
  expect(rates([0, 2, 4, 4], [0, 10, 10, 20])).toEqual([0, 5, 0, 0]);
  expect(rates([], [])).toEqual([]);
});
