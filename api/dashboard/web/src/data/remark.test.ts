import { expect, test } from "vitest";
import { remark } from "./remark";
import { task } from "./testing";
import type { FleetNode, Task } from "./types";

const at = Date.parse("2026-03-04T05:06:07Z");
const hour = (text: string): string => text.slice(11, 16);
const fleet = [{ name: "n", types: ["t"] } as FleetNode];
const of = (t: Partial<Task>, nodes = fleet): string => remark(task("x", t.status, t), nodes, at, hour);

test("a task that waits says for what", () => {
  expect(of({ status: "pending", type: "t" })).toBe("");
  expect(of({ status: "pending", type: "rare" })).toBe("no node runs the type rare");
  expect(of({ status: "pending", type: "t" }, [])).toBe("no node is there");
  expect(of({ status: "pending", type: "t", not_before: "2026-03-04T06:00:00Z" })).toBe("not before 06:00");
  expect(of({ status: "pending", type: "t", not_before: "2026-03-04T05:00:00Z" })).toBe("");
  expect(of({ status: "blocked", blocked_by: ["a", "b", "c", "d"] })).toBe("waits for a, b and 2 more");
  expect(of({ status: "blocked", blocked_by: ["a", "b", "c"], blocked_by_count: 9999 })).toBe("waits for a, b and 9997 more");
  expect(of({ status: "blocked", blocked_by: ["j_t", "j_t|*"], blocked_by_count: 759 })).toBe("waits for j_t, j_t|* (759 tasks)");
  expect(of({ status: "blocked", blocked_by: ["a", "b", "j_t|*"], blocked_by_count: 3 })).toBe("waits for a, b, … (3 tasks)");
  expect(of({ status: "blocked", blocked_by: ["j_t|*"], blocked_by_count: 1 })).toBe("waits for j_t|* (1 task)");
  expect(of({ status: "blocked", blocked_by: ["a"], failed_needs: ["a"] })).toBe("needs a, which failed");
  expect(of({ status: "blocked", blocked_by: ["j_t|*"], failed_needs: ["j_t|a_t", "j_t|b_t"], failed_needs_count: 40 })).toBe("needs j_t|a_t, j_t|b_t and 38 more, which failed");
});

test("a task that has erred says how", () => {
  const errors = [{ timestamp: "", error: "first" }, { timestamp: "", error: "no route\nto host" }];
  expect(of({ status: "failed", errors })).toBe("no route");
  expect(of({ status: "running", errors })).toBe("no route");
  expect(of({ status: "running" })).toBe("");
  expect(of({ status: "sleeping", errors, until: "2026-03-04T06:00:00Z" })).toBe("until 06:00, no route");
  expect(of({ status: "sleeping", errors, failures: 2, failures_max: 25, until: "2026-03-04T06:00:00Z" })).toBe("until 06:00, attempt 3 of 25: no route");
  expect(of({ status: "running", errors, failures: 2 })).toBe("attempt 3: no route");
  expect(of({ status: "running", failures_max: 25 })).toBe("");
  expect(of({ status: "failed", errors, failures_max: 25 })).toBe("no route");
  expect(of({ status: "sleeping", until: "2026-03-04T06:00:00Z" })).toBe("until 06:00");
});
