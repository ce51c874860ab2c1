import { expect, test } from "vitest";
import { changesOf, patchOf } from "./patch";

/** What RFC 7396 makes of an object and a patch. */
function merged(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> = typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

test("a patch makes one the other", () => {
  const values: Record<string, unknown>[] = [
    {}, { a: 1 }, { a: "1" }, { a: [1, 2] }, { a: [2, 1] }, { a: [{ b: null }] }, { a: {} }, { a: { b: 1, c: 2 } }, { a: { b: 1 }, d: false },
    { a: { b: { c: [] } } }, { toString: "x", constructor: { name: 1 } },
  ];
  for (const from of values) {
    for (const to of values) {
      expect(merged(from, patchOf(from, to))).toEqual(to);
      expect(changesOf(from, to).length === 0).toBe(JSON.stringify(from) === JSON.stringify(to));
    }
  }
});

test("a patch has only what changes, and what cannot be sent is refused", () => {
  expect(patchOf({ a: 1, b: { c: null, d: 1 } }, { b: { c: null, d: 2 } })).toEqual({ a: null, b: { d: 2 } });
  expect(() => patchOf({}, { a: { b: null } })).toThrow("a.b: null would remove it");
  expect(() => patchOf({ a: [2 ** 60, 1] }, { a: [2 ** 60, 2] })).toThrow("a.0: the number 1152921504606847000 has more digits");
  expect(patchOf({ big: 2 ** 60, a: 1 }, { big: 2 ** 60, a: 2 })).toEqual({ a: 2 });
});

test("changes have paths", () => {
  expect(changesOf({ props: { url: "a", n: 1 }, type: "t" }, { props: { url: "b", m: [1] }, type: "t" })).toEqual([
    { path: "props.m", from: undefined, to: [1] }, { path: "props.n", from: 1, to: undefined }, { path: "props.url", from: "a", to: "b" },
  ]);
});
