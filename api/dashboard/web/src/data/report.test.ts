import { expect, test } from "vitest";
import { lacksOf, logErrorOf, outlivedOf, outputOf, reportOf, usageText } from "./report";
import { task } from "./testing";
import type { TaskDetail } from "./types";

const usage = { cpu_seconds: 75.5, cpu_share: 1.234, memory_bytes: 70_254_592, processes: 3 };
const of = (progress: unknown, type = "exec", status: TaskDetail["status"] = "running") => reportOf({ ...task("x", status, { type }), progress } as TaskDetail);

const at = "2026-03-04T05:06:07Z";

test("a report is that of a command that runs", () => {
  expect(of({ at, output: "a", truncated: false, usage })).toEqual({ at, output: "a", usage });
  expect(of({ at, output: "a" })).toEqual({ at, output: "a" });
  expect(of({ at, output: "a", usage: { cpu_seconds: "many" } })).toEqual({ at, output: "a" });
  expect(of({ at, output: "a", usage: null })).toEqual({ at, output: "a" });
  for (const other of [null, 7, "text", [], { output: "a" }, { at }, { at: 1, output: "a" }]) expect(of(other)).toEqual({});
  expect(of({ at, output: "a" }, "other")).toBeUndefined();
  expect(of({ at, output: "a" }, "exec", "completed")).toBeUndefined();
});

test("a log that is incomplete says why", () => {
  expect(of({ at, output: "a", log_error: "disk full" })).toEqual({ at, output: "a", log_error: "disk full" });
  expect([{ log_error: "disk full", log_missing: 7 }, { log_error: "" }, { log_error: 7 }, null, "x"].map(logErrorOf)).toEqual(["7 bytes are missing: disk full", "", "", "", ""]);
});

test("a report of an earlier claim says nothing of the log of this run", () => {
  const lacks = (claimed_at: string | null, status: TaskDetail["status"] = "running") =>
    lacksOf({ ...task("x", status, { type: "exec", claimed_at }), progress: { at, output: "a", log_error: "disk full" }, result: { log_error: "no folder" } } as TaskDetail);
  expect(lacks("2026-03-04T05:06:06.5Z")).toBe("disk full");
  expect(lacks("2026-03-04T05:06:07.5Z")).toBe("");
  expect(lacks(null)).toBe("disk full");
  expect(lacks("2026-03-04T05:06:06.5Z", "completed")).toBe("no folder");
});

test("what outlived the program is a number", () => {
  expect([{ outlived: 2 }, { outlived: "2" }, {}, null, "x"].map(outlivedOf)).toEqual([2, 0, 0, 0, 0]);
});

test("an output is a text", () => {
  expect([{ output: "a" }, { output: 7 }, null, "a"].map(outputOf)).toEqual(["a", undefined, undefined, undefined]);
});

test("a usage has units", () => {
  expect(usageText(usage)).toBe("CPU 123%, 1 min 15 s in all · memory 67.0 MiB in 3 processes");
  expect(usageText({ cpu_seconds: 0, cpu_share: 0, memory_bytes: 4096, processes: 1 })).toBe("CPU 0%, 0 ms in all · memory 4 KiB in 1 process");
});
