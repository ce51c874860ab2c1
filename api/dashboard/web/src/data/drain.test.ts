import { describe, expect, test } from "vitest";
import { drainOf } from "./drain";
import type { Plan } from "./types";

const plan = (...moves: [string, string, number][]): Plan => ({
  nodes: [], moves: moves.map(([from, to, tasks]) => ({ from, to, tasks })), moved: 0, waiting: 0, imbalance_before: 0, imbalance_after: 0,
});

describe("the note on a drain", () => {
  test("names where the tasks go, and those that have nowhere to go", () => {
    expect(drainOf(plan(["n1", "n2", 7], ["n1", "", 3], ["n1", "n3", 1], ["n2", "n3", 5], ["", "n2", 2]), "n1")).toEqual({
      moves: "8 tasks would move: 7 to n2, 1 to n3.", nowhere: "3 tasks would wait: no other node can take them.",
    });
  });
  test("says of a node with nothing that nothing moves", () => {
    expect(drainOf(plan(["n2", "n3", 5]), "n1")).toEqual({ moves: "No task would move.", nowhere: "" });
    expect(drainOf(plan(["n1", "", 1]), "n1")).toEqual({ moves: "No task would move.", nowhere: "1 task would wait: no other node can take it." });
  });
  test("names a few of many nodes", () => {
    expect(drainOf(plan(["n1", "a", 5], ["n1", "b", 4], ["n1", "c", 3], ["n1", "d", 2], ["n1", "e", 1], ["n1", "f", 1]), "n1").moves).toBe(
      "16 tasks would move: 5 to a, 4 to b, 3 to c, 2 to d, 2 to 2 more nodes.");
  });
});
