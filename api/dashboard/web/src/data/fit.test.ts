import { expect, test } from "vitest";
import { fit } from "./fit";

/** As if W were as wide as three other letters. */
const measure = (text: string): number => [...text].reduce((sum, c) => sum + (c === "W" ? 3 : 1), 0);

test("a text is cut where the room ends, not after a number of letters", () => {
  expect(fit("letters", 7, measure)).toBe("letters");
  expect(fit("letters!", 7, measure)).toBe("letter…");
  expect(fit("WWWWWWW", 7, measure)).toBe("WW…");
  expect(fit("WWW", 2, measure)).toBe("…");
  expect(fit("", 0, measure)).toBe("");
  expect(fit("🙂🙂🙂", 2, measure)).toBe("🙂…");
});
