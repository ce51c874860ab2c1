import { describe, expect, test } from "vitest";
import { scrollTo, windowOf } from "./window";

describe("the window of a long list", () => {
  test("draws what is seen, and a bounded number besides, wherever it is scrolled to", () => {
    for (let scroll = -100; scroll < 400_000; scroll += 997) {
      const w = windowOf(10_000, 36, scroll, 700);
      expect(w.to - w.from).toBeLessThanOrEqual(Math.ceil(700 / 36) + 1 + 16);
      expect(w.top).toBe(w.from * 36);
      expect(w.height).toBe(360_000);
      const seen = Math.min(Math.max(0, scroll), 360_000 - 700);
      expect(w.top).toBeLessThanOrEqual(seen);
      expect(w.to * 36).toBeGreaterThanOrEqual(seen + 700);
    }
  });
  test("a short list is drawn whole, an empty one not at all", () => {
    expect(windowOf(3, 36, 500, 700)).toEqual({ from: 0, to: 3, top: 0, height: 108 });
    expect(windowOf(0, 36, 0, 700)).toEqual({ from: 0, to: 0, top: 0, height: 0 });
  });
  test("scrolls no further than it has to", () => {
    expect(scrollTo(5, 10, 40, 100)).toBe(40);
    expect(scrollTo(2, 10, 40, 100)).toBe(20);
    expect(scrollTo(30, 10, 40, 100)).toBe(210);
  });
});
