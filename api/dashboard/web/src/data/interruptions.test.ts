import { expect, test } from "vitest";
import { Interruptions } from "./interruptions";
import { task } from "./testing";

test("a task is asked for once, and again when it was claimed anew and a while after that", async () => {
  const asked: string[][] = [];
  let count = 1;
  const i = new Interruptions((ids) => {
    asked.push(ids);
    return Promise.resolve({ a: count });
  });
  const claimed = Date.parse("2026-03-04T05:06:07Z");
  const a = task("a", "running", { token: 5, claimed_at: "2026-03-04T05:06:07Z" });
  expect(i.of(a, claimed + 1000)).toBeUndefined();
  expect(i.of(a, claimed + 1000)).toBeUndefined();
  expect(await i.fetch(claimed + 1000)).toBe(true);
  expect(i.of(a, claimed + 2000)).toBe(1);
  expect(await i.fetch(claimed + 2000)).toBe(false);
  count = 2;
  expect(i.of(a, claimed + 10_000)).toBe(1);
  expect(await i.fetch(claimed + 10_000)).toBe(true);
  expect(i.of(a, claimed + 60_000)).toBe(2);
  expect(await i.fetch(claimed + 60_000)).toBe(false);
  count = 3;
  expect(i.of({ ...a, token: 6 }, claimed + 60_000)).toBe(2);
  expect(await i.fetch(claimed + 60_000)).toBe(true);
  expect(i.of({ ...a, token: 6 }, claimed + 60_000)).toBe(3);
  expect(asked).toEqual([["a"], ["a"], ["a"]]);
});

test("a task that was never interrupted has zero, and what was not answered is asked again", async () => {
  let fails = true;
  const i = new Interruptions(() => (fails ? Promise.reject(new Error("away")) : Promise.resolve({})));
  const a = task("a");
  i.of(a, 0);
  await expect(i.fetch(0)).rejects.toThrow("away");
  fails = false;
  expect(i.of(a, 1)).toBeUndefined();
  await i.fetch(1);
  expect(i.of(a, 2)).toBe(0);
});

test("a request is for a hundred tasks at most", async () => {
  const sizes: number[] = [];
  const i = new Interruptions((ids) => {
    sizes.push(ids.length);
    return Promise.resolve({});
  });
  for (let n = 0; n < 250; n++) i.of(task(`t${n}`), 0);
  await i.fetch(0);
  expect(sizes).toEqual([100, 100, 50]);
});
