import { expect, test } from "vitest";
import { bounded, fitted, scaleMax, scaleMin, zoomed } from "./viewport";

test("zooming keeps the point below the pointer", () => {
  const before = { x: 10, y: 20, scale: 0.5 };
  const after = zoomed(before, 1.6, 100, 80);
  expect(after.scale).toBeCloseTo(0.8);
  expect((100 - after.x) / after.scale).toBeCloseTo((100 - before.x) / before.scale);
  expect((80 - after.y) / after.scale).toBeCloseTo((80 - before.y) / before.scale);
  expect(zoomed(before, 1000, 0, 0).scale).toBe(scaleMax);
  expect(zoomed(before, 1e-9, 0, 0).scale).toBe(scaleMin);
  const fitting = { x: 0, y: 0, scale: scaleMin / 4 };
  expect(zoomed(fitting, 2, 0, 0).scale).toBeCloseTo(scaleMin / 2);
  expect(zoomed(fitting, 0.5, 0, 0).scale).toBe(scaleMin / 4);
});

test("fitting shows everything in the middle, and enlarges nothing", () => {
  expect(fitted(100, 50, 400, 400)).toEqual({ scale: 1, x: 150, y: 175 });
  expect(fitted(1000, 500, 500, 500)).toEqual({ scale: 0.5, x: 0, y: 125 });
  expect(fitted(500, 50_000, 500, 500)).toEqual({ scale: 0.01, x: 247.5, y: 0 });
  expect(fitted(0, 0, 500, 500)).toEqual({ scale: 1, x: 0, y: 0 });
});

test("a drawing cannot be lost", () => {
  expect(bounded({ x: 9999, y: -9999, scale: 1 }, 100, 100, 400, 300)).toEqual({ x: 340, y: -40, scale: 1 });
});
