import { describe, expect, test } from "vitest";
import { attention, whyNobody } from "./attention";
import { task } from "./testing";
import type { FleetNode, Health, Task } from "./types";

const now = Date.parse("2026-01-02T04:00:00Z");
const node = (name: string, more: Partial<FleetNode> = {}) =>
  ({ name, tasks: 0, frozen: false, draining: false, types: ["exec"], ...more }) as FleetNode;
const titles = (tasks: Task[], nodes: FleetNode[], health?: Health) =>
  attention(tasks, nodes, health, now).map((f) => `${f.level}: ${f.title}, ${f.detail}`);

describe("what needs attention", () => {
  test("nothing, when everything runs", () => {
    expect(titles([task("a", "running"), task("b", "completed")], [node("n1")])).toEqual([]);
  });
  test("tasks that nobody runs, with the reason that can be seen from here", () => {
    const waits = [task("a")];
    expect(titles(waits, [])).toEqual(["bad: 1 task of type exec that nobody runs, no node is there"]);
    expect(titles(waits, [node("n1", { types: ["poll"] })])[0]).toContain("no node runs the type exec");
    expect(titles(waits, [node("n1", { frozen: true }), node("n2", { draining: true })])[0]).toContain("every node that runs it is draining or frozen");
    expect(titles(waits, [node("n1")])).toEqual(["warn: 1 task of type exec that nobody runs, waiting to be claimed"]);
    expect(titles(waits, [node("n1", { types: [], pulls: ["exec"] })])[0]).toContain("wait to be pulled");
  });
  test("not those that came a moment ago, or are for later", () => {
    const recent = task("a", "pending", { submitted_at: new Date(now - 5000).toISOString() });
    const later = task("b", "pending", { not_before: new Date(now + 5000).toISOString() });
    expect(titles([recent, later], [node("n1")])).toEqual([]);
  });
  test("failures before warnings, retries, and what waits for what failed", () => {
    const error = [{ timestamp: "", error: "e" }];
    expect(titles([
      task("a", "sleeping", { errors: error }), task("b", "sleeping"), task("c", "failed"), task("d", "fault"),
      task("e", "blocked", { failed_needs: ["c"] }),
    ], [node("n1")])).toEqual([
      "bad: 1 task in fault, stopped by an error, until told to run",
      "bad: 1 task failed, given up, by error",
      "warn: 1 task blocked for good, what they need has failed",
      "warn: 1 task of type exec to be retried, sleeping after an error",
    ]);
  });
  test("what kills its nodes, and nodes that keep dying", () => {
    const error = [{ timestamp: "", error: "set aside: the process that ran it died 3 times, on a, b, c" }];
    expect(titles([task("p", "failed", { errors: error })], [node("n1", { probation: "2026-01-02T04:10:00Z" })])).toEqual([
      "bad: Task p is set aside: nodes died that ran it, set aside: the process that ran it died 3 times, on a, b, c",
      "bad: 1 task failed, given up, by error",
      "warn: Node n1 is on probation, it has died repeatedly, and gets no tasks for now",
    ]);
  });
  test("what keeps ending", () => {
    const restarts = { count: 9, in_a_row: 5, last_end: "exited: exit code 1", last_at: "", next: "" };
    const [l, m, rare] = [task("l", "running", { restarts }), task("m", "running", { restarts }), task("n", "running", { restarts: { ...restarts, in_a_row: 4 } })];
    expect(titles([l, rare], [node("n1")])).toEqual(["warn: Task l keeps ending and is started again, exited: exit code 1"]);
    expect(titles([l, m], [node("n1")])).toEqual(["warn: 2 tasks keep ending and are started again, l: exited: exit code 1"]);
  });
  test("types that are paused, and not that their tasks wait", () => {
    const types = [{ type: "exec", pause: { at: "", reason: "its database" }, tasks: {}, nodes: [] }, { type: "poll", tasks: {}, nodes: [] }];
    expect(attention([task("a")], [], undefined, now, types).map((f) => `${f.level}: ${f.title}, ${f.detail}`)).toEqual(["warn: Type exec is paused, its database"]);
  });
  test("nodes that are not there any more", () => {
    expect(titles([], [node("n1", { silent_since: new Date(now - 25_000).toISOString(), frozen: true })])).toEqual([
      "bad: Node n1 is dead or cut off, it last renewed its session 25s ago, and what it holds may not run",
    ]);
  });
  test("nodes that are away and are to be back", () => {
    const away = (ms: number, tasks: number): FleetNode => node("n1", { away_until: new Date(now + ms).toISOString(), returning: true, tasks });
    expect(titles([], [away(40_000, 1)])).toEqual(["warn: Node n1 is away, it is to be back within 40s, and 1 task is kept for it"]);
    expect(titles([], [away(-20_000, 7)])).toEqual(["warn: Node n1 is away, it was to be back 20s ago, and nothing is kept for it any more"]);
    expect(whyNobody("exec", [away(40_000, 1)])).toBe("every node that runs it is away");
    expect(titles([task("a")], [away(40_000, 1), node("n2")])[0]).toContain("kept for a node that is away, or waiting to be claimed");
  });
  test("nodes that take nothing, sessions that run out, a broker that is away", () => {
    const health: Health = {
      broker: { ok: false, latency_seconds: 2, measured_at: "", problem: "broker_unavailable" }, viewers: 1,
      sessions: [{ node: "n2", margin_seconds: 1, full_seconds: 9 }, { node: "n3", margin_seconds: 8, full_seconds: 9 }],
    };
    expect(titles([], [node("n1", { frozen: true }), node("n0", { cordon: { at: "2026-01-01T00:00:00Z", reason: "its disk" } }), node("n2", { overloaded: true }), node("n4", { behind: "4s" }), node("n5", { slow_renewal: "1.9s" })], health)).toEqual([
      "bad: The broker does not answer, broker_unavailable",
      "bad: Node n2 is losing touch, its handlers stop in 1.0 s",
      "warn: Node n1 is frozen, it takes no tasks",
      "warn: Node n0 is cordoned, its disk",
      "warn: Node n2 is overloaded, it takes no tasks",
      "warn: Node n4 was 4s behind, or more, it saw late what others do, within the last half minute",
      "warn: Node n5 needed 1.9s to renew its session, within the last ten minutes; it stops its tasks if that takes too long",
    ]);
  });
});
