import { expect, test } from "vitest";
import { byStatus, failures, kindOf } from "./failures";
import { task } from "./testing";

const failed = (id: string, error: string, at: string, type = "import") =>
  task(id, "failed", { type, errors: [{ timestamp: at, error }], finished_at: at });

test("failures are grouped by type and error, whatever numbers are in it", () => {
  const got = failures([
    failed("a", "dial 10.0.0.1:80: refused", "2026-01-01T00:00:00Z"), failed("b", "dial 10.0.0.27:8080: refused", "2026-01-02T00:00:00Z"),
    failed("c", "dial 10.0.0.1:80: refused", "2026-01-01T00:00:00Z", "other"), failed("d", "no such file", "2026-01-01T00:00:00Z"),
    task("e", "running"), task("f", "sleeping"),
    task("g", "sleeping", { type: "import", errors: [{ timestamp: "2026-01-03T00:00:00Z", error: "dial 10.0.0.2:80: refused" }] }),
    task("h", "fault", { type: "other", errors: [{ timestamp: "2025-12-31T00:00:00Z", error: "dial 10.0.0.2:80: refused" }] }),
  ]);
  expect(got.map((g) => [g.type, g.error, g.tasks.map((t) => t.id).join(), byStatus(g.tasks)])).toEqual([
    ["import", "dial 10.0.0.2:80: refused", "g,b,a", "2 failed, 1 sleeping"], ["other", "dial 10.0.0.1:80: refused", "c,h", "1 failed, 1 fault"],
    ["import", "no such file", "d", "1 failed"],
  ]);
});

test("words with digits count as one, but for exit codes and the like", () => {
  for (const [error, kind] of [
    ["dial 10.0.0.1:8080 after 1.5s: refused\nmore", "dial 0:0 after 0: refused"], ["exited: exit code 3 after 2ms", "exited: exit code 3 after 0"],
    ["HTTP status=404 of 17", "HTTP status=404 of 0"], ["task a1b2-c3: no", "task 0-0: no"],
    ["set aside: the process that ran it died 4 times, on west, east, west, north", "set aside: the process that ran it died"],
  ] as const) expect(kindOf(error)).toBe(kind);
});
