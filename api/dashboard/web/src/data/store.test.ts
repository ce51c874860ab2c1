import { describe, expect, test } from "vitest";
import { Store } from "./store";
import { task } from "./testing";
import type { FleetNode, Status, Task } from "./types";

function listed(...tasks: Task[]): Store {
  const s = new Store();
  s.startListing();
  s.finishListing({ tasks, nodes: [], elections: [] });
  return s;
}

describe("the store", () => {
  test("has what was listed, with what happened while the list was read", () => {
    const s = new Store();
    s.startListing();
    s.apply("task", task("b", "running"));
    s.apply("task", { id: "c", gone: true });
    s.apply("node", { name: "n1", gone: true });
    s.finishListing({ tasks: [task("a"), task("b"), task("c")], nodes: [{ name: "n1" } as FleetNode, { name: "n2" } as FleetNode], elections: [] });
    expect([...s.tasks.values()].map((t) => `${t.id} ${t.status}`)).toEqual(["a pending", "b running"]);
    expect([...s.nodes.keys()]).toEqual(["n2"]);
    expect(s.counts.pending).toBe(1);
    expect(s.counts.running).toBe(1);
  });
  test("a second listing forgets what is gone", () => {
    const s = listed(task("a"), task("b"));
    s.startListing();
    s.finishListing({ tasks: [task("b")], nodes: [], elections: [] });
    expect([...s.tasks.keys()]).toEqual(["b"]);
    expect(s.counts.pending).toBe(1);
  });
  test("counts by status with every event, whatever came before", () => {
    const s = listed(task("a"));
    for (const status of ["running", "running", "sleeping", "completed"] as Status[]) s.apply("task", task("a", status));
    s.apply("task", { id: "a", gone: true });
    s.apply("task", { id: "a", gone: true });
    expect(Object.values(s.counts).every((n) => n === 0)).toBe(true);
    expect(s.types.size).toBe(0);
    s.apply("task", task("b", "pending", { type: "poll" }));
    expect([...s.types]).toEqual([["poll", 1]]);
  });
  test("a new token is a claim, and with another node a move", () => {
    const s = listed(task("a"), task("old", "running", { node: "n1", token: 3 }));
    s.apply("task", task("a", "running", { node: "n1", token: 5 }));
    s.apply("task", task("a", "sleeping", { node: "n1", token: 5 }));
    expect([s.claims, s.moves]).toEqual([1, 0]);
    s.apply("task", task("old", "running", { node: "n2", token: 9 }));
    expect([s.claims, s.moves]).toEqual([2, 1]);
  });
  test("so is one of a task that nobody had for a while", () => {
    const s = listed(task("a", "running", { node: "n1", token: 3 }), task("b", "running", { node: "n1", token: 4 }));
    for (const id of ["a", "b"]) s.apply("task", task(id));
    s.apply("task", task("a", "running", { node: "n2", token: 9 }));
    s.apply("task", task("b", "running", { node: "n1", token: 10 }));
    expect([s.claims, s.moves]).toEqual([2, 1]);
  });
  test("a task that is gone for a moment and then completed was not claimed again", () => {
    const s = listed(task("a", "running", { node: "n1", token: 5 }));
    s.apply("task", { id: "a", gone: true });
    s.apply("task", task("a", "completed", { node: "n1", token: 5 }));
    expect([s.claims, s.moves]).toEqual([0, 0]);
    expect(s.counts.completed).toBe(1);
  });
  test("what was claimed before the page was opened is not counted", () => {
    const s = new Store();
    s.startListing();
    s.apply("task", task("a", "running", { node: "n1", token: 5 }));
    s.finishListing({ tasks: [], nodes: [], elections: [] });
    expect(s.claims).toBe(0);
  });
  test("tells of changes, and knows which kinds there are", () => {
    let told = 0;
    const s = new Store(() => told++);
    expect(s.apply("task", task("a"))).toBe(true);
    expect(s.apply("election", { name: "e", leader: "n", token: 1, candidates: [] })).toBe(true);
    expect(s.apply("weather", {})).toBe(false);
    expect(told).toBe(2);
  });
});
