import { expect, test } from "vitest";
import { fold } from "./fold";

const folded = (letters: string): string =>
  fold([...letters], (l) => l).map((f) => f.shown.join("") + (f.times ? `×${f.times + 1}` : "")).join(" ");

test("what repeats is folded, one by one or by the few", () => {
  for (const [letters, want] of [
    ["", ""], ["abc", "a b c"], ["aa", "a a"], ["aaa", "a×3"], ["xababababy", "x ab×4 y"], ["abcabcabc", "abc×3"], ["aaabbbb", "a×3 b×4"], ["ababa", "a b a b a"],
  ] as const) expect(folded(letters)).toBe(want);
});

test("nothing is lost", () => {
  const items = [..."aaaabababcdcdcdcde"];
  expect(fold(items, (l) => l).flatMap((f) => [...f.shown, ...f.more])).toEqual(items);
});
