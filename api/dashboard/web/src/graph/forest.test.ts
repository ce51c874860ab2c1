import { describe, expect, test } from "vitest";
import { task } from "../data/testing";
import type { Job, Status } from "../data/types";
import { drawingOf, jobOf, rowsOf, segmentOf } from "./forest";

const job = (id: string, status: Status = "pending"): Job => {
  const j = jobOf(task(id, status, { type: id.slice(id.lastIndexOf("_") + 1) }));
  if (!j) throw new Error(`${id} is no job`);
  return j;
};
const none = new Map<string, string[]>();

describe("the forest of jobs", () => {
  test("a job is a task whose ID is a path and ends in its type", () => {
    expect(jobOf(task("a_x|b_c_y", "running", { type: "y" }))).toMatchObject({ path: "a_x/b_c_y", name: "b_c", parent: "a_x" });
    expect(jobOf(task("a_x", "running", { type: "exec" }))).toBeUndefined();
    expect(jobOf(task("plain"))).toBeUndefined();
    expect(jobOf(task("a|b_y", "running", { type: "y" }))).toBeUndefined();
    expect(segmentOf("_x")).toBeUndefined();
  });
  test("is drawn from parents to children and from needs, each line once", () => {
    const jobs = [job("a_x"), job("a_x|b_y"), job("c_x")];
    const d = drawingOf(jobs, new Map([["c_x", ["a_x|b_y"]], ["a_x|b_y", ["a_x"]], ["a_x", ["gone_x"]]]), false);
    expect(d.vertices.map((v) => v.id)).toEqual(["a_x", "a_x|b_y", "c_x"]);
    expect(d.edges).toEqual([{ from: "a_x", to: "a_x|b_y", need: false }, { from: "a_x|b_y", to: "c_x", need: true }]);
  });
  test("folds completed jobs, but none above others", () => {
    const jobs = [
      job("a_x", "completed"), job("a_x|b_y", "completed"), job("a_x|c_y", "completed"), job("a_x|d_y", "running"),
      job("e_x", "completed"), job("f_x", "completed"), job("f_x|g_y", "completed"),
    ];
    const d = drawingOf(jobs, new Map([["a_x|d_y", ["f_x|g_y"]]]), true);
    expect(d.vertices.map((v) => `${v.label} ${v.folded}`)).toEqual(["3 completed 3", "a 0", "2 completed 2", "d 0"]);
    expect(d.edges.filter((e) => e.need)).toEqual([{ from: "|*", to: "a_x|d_y", need: true }]);
  });
  test("shows what failed or was killed by itself", () => {
    const jobs = [job("a_x", "completed"), job("a_x|b_y", "completed"), job("a_x|c_y", "completed"), job("a_x|d_y", "failed"), job("a_x|e_y", "killed"), job("f_x", "failed"), job("f_x|g_y", "completed")];
    const d = drawingOf(jobs, none, true);
    expect(d.vertices.map((v) => `${v.label} ${v.status}`)).toEqual(["a completed", "2 completed completed", "d failed", "e killed", "f failed", "g completed"]);
  });
  test("is listed in order, with how far each part has come", () => {
    const jobs = [job("b_x"), job("a_x", "completed"), job("a_x|c_y", "completed"), job("a_x|b_y"), job("gone_x|z_y")];
    const shown = (closed: string[]) => rowsOf(jobs, new Set(closed)).map((r) => `${r.depth} ${r.job.id} ${r.done}/${r.total} ${r.position}of${r.siblings}`);
    expect(shown([])).toEqual(["1 a_x 1/2 1of3", "2 a_x|b_y 0/0 1of2", "2 a_x|c_y 0/0 2of2", "1 b_x 0/0 2of3", "1 gone_x|z_y 0/0 3of3"]);
    expect(shown(["a_x"])).toEqual(["1 a_x 1/2 1of3", "1 b_x 0/0 2of3", "1 gone_x|z_y 0/0 3of3"]);
  });
  test("nothing is nothing", () => {
    expect(drawingOf([], none, true)).toEqual({ vertices: [], edges: [] });
    expect(rowsOf([], new Set())).toEqual([]);
  });
});
