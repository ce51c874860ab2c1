import { describe, expect, test } from "vitest";
import { isEmpty, noFilter, parseFilter, queryOf, select } from "./filters";
import { task } from "./testing";

const tasks = [
  task("poll-10", "running", { node: "n1", type: "poll", claimed_at: "2026-01-02T00:00:03Z" }),
  task("poll-2", "sleeping", { node: "n2", type: "poll", errors: [{ timestamp: "", error: "e" }] }),
  task("Crawl", "pending", { priority: 5, submitted_at: "2026-01-02T00:00:01Z" }),
];
const ids = (query: string) => select(tasks, parseFilter(new URLSearchParams(query))).map((t) => t.id);

describe("filters of tasks", () => {
  test("each must match, and each takes several values", () => {
    expect(ids("")).toEqual(["Crawl", "poll-10", "poll-2"]);
    expect(ids("status=running&status=pending")).toEqual(["Crawl", "poll-10"]);
    expect(ids("status=running&type=exec")).toEqual([]);
    expect(ids("node=n2")).toEqual(["poll-2"]);
  });
  test("text is anywhere in the ID without regard to case, or at its beginning", () => {
    expect(ids("q=CRAW")).toEqual(["Crawl"]);
    expect(ids("q=2")).toEqual(["poll-2"]);
    expect(ids("q=^poll")).toEqual(["poll-10", "poll-2"]);
    expect(ids("q=^craw")).toEqual([]);
  });
  test("the last error contains a text without regard to case", () => {
    expect(ids("error=E")).toEqual(["poll-2"]);
    expect(ids("error=other")).toEqual([]);
    expect(isEmpty({ ...noFilter, error: "a" })).toBe(false);
  });
  test("all tags must match, whatever is in their values, and a key alone matches any", () => {
    const some = [
      task("a", "running", { tags: { tenant: "t1", note: "x=1, y" } }), task("b", "failed", { tags: { tenant: "t2", team: "" } }), task("c"),
    ];
    const having = (...tags: string[]) => select(some, { ...noFilter, tags }).map((t) => t.id);
    expect(having("tenant=t1")).toEqual(["a"]);
    expect(having("tenant")).toEqual(["a", "b"]);
    expect(having("tenant=")).toEqual(["a", "b"]);
    expect(having("team")).toEqual(["b"]);
    expect(having("note=x=1, y", "tenant=t1")).toEqual(["a"]);
    expect(having("tenant=t1", "team")).toEqual([]);
    expect(having("tenant=t")).toEqual([]);
    expect(having("constructor")).toEqual([]);
    expect(isEmpty({ ...noFilter, tags: ["tenant"] })).toBe(false);
    expect(parseFilter(new URLSearchParams("tag=&tag==x&tag=a")).tags).toEqual(["a"]);
  });
  test("sorts by any column and then by ID", () => {
    expect(ids("sort=-id")).toEqual(["poll-2", "poll-10", "Crawl"]);
    expect(ids("sort=status")).toEqual(["poll-10", "Crawl", "poll-2"]);
    expect(ids("sort=-errors")).toEqual(["poll-2", "poll-10", "Crawl"]);
    expect(ids("sort=-priority")[0]).toBe("Crawl");
    expect(ids("sort=changed")[0]).toBe("Crawl");
  });
  test("stand in the URL, and what makes no sense there is left out", () => {
    const query = "status=running&type=a+b&node=n%2F1&q=%5Ex&error=no+route&tag=a%3Db%3D%2C+c&tag=d&sort=-errors";
    expect(queryOf(parseFilter(new URLSearchParams(query)))).toBe(query);
    expect(parseFilter(new URLSearchParams("status=odd&sort=-weather"))).toEqual(noFilter);
    expect(queryOf(noFilter)).toBe("");
    expect(isEmpty(noFilter)).toBe(true);
    expect(isEmpty({ ...noFilter, text: "a" })).toBe(false);
  });
});
