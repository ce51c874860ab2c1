import { expect, test } from "vitest";
import { attemptOf, type Step, stepsOf } from "./steps";
import { task } from "./testing";
import type { Status, Task } from "./types";

const at = Date.parse("2026-03-04T05:06:07Z");
const then = "2026-03-04T05:00:00Z";
const later = "2026-03-04T06:00:00Z";
const errors = [{ timestamp: then, error: "no route\nto host" }];
const of = (status: Status, more: Partial<Task> = {}, waits = ""): string[] =>
  stepsOf(task("x", status, { submitted_at: "2026-03-04T04:00:00Z", ...more }), waits, at).map((s: Step) => [s.when, s.name, s.at?.slice(11, 16), s.note].filter(Boolean).join(" "));

test("a task that has not ended has a step that comes next", () => {
  expect(of("pending")).toEqual(["past Submitted 04:00", "now Pending", "next Runs"]);
  expect(of("pending", {}, "no node is there")).toEqual(["past Submitted 04:00", "now Pending no node is there", "next Runs"]);
  expect(of("pending", { not_before: later })).toEqual(["past Submitted 04:00", "now Waits for its time", "next Runs 06:00"]);
  expect(of("pending", { not_before: then })).toEqual(["past Submitted 04:00", "now Pending", "next Runs"]);
  expect(of("blocked", {}, "waits for a")).toEqual(["past Submitted 04:00", "now Waits waits for a", "next Runs"]);
  expect(of("running", { claimed_at: then, node: "n" })).toEqual(["past Submitted 04:00", "now Runs 05:00 on n", "next Ends"]);
  expect(of("sleeping", { errors, until: later, failures: 2, failures_max: 25 })).toEqual(["past Submitted 04:00", "now Sleeps 05:00 no route", "next Runs 06:00 attempt 3 of 25"]);
  expect(of("paused", { node: "n" })).toEqual(["past Submitted 04:00", "now Paused on n", "next Runs when it is told to"]);
  expect(of("fault", { errors })).toEqual(["past Submitted 04:00", "now In fault 05:00 no route", "next Runs"]);
});

test("a task that has ended has none", () => {
  expect(of("completed", { claimed_at: then, node: "n", finished_at: later })).toEqual(["past Submitted 04:00", "past Claimed 05:00 n", "now completed 06:00"]);
  expect(of("failed", { claimed_at: then, node: "n", finished_at: later, errors })).toEqual(["past Submitted 04:00", "past Claimed 05:00 n", "now failed 06:00 no route"]);
  expect(of("killed", { finished_at: later })).toEqual(["past Submitted 04:00", "now killed 06:00"]);
});

test("attempts are counted where they mean something", () => {
  expect(attemptOf(task("x"))).toBe("");
  expect(attemptOf(task("x", "running", { failures_max: 25 }))).toBe("attempt 1 of 25");
  expect(attemptOf(task("x", "running", { failures: 1, failures_max: 25 }))).toBe("attempt 2 of 25");
  expect(attemptOf(task("x", "running", { failures: 40 }))).toBe("attempt 41");
});
