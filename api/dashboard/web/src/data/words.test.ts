import { expect, test } from "vitest";
import { pairsOf, wordsOf } from "./words";

test("a command line is split as a shell does", () => {
  expect(wordsOf(`echo "hello, world" 'a "b"' c\\ d "e\\"f" ''`)).toEqual(["echo", "hello, world", 'a "b"', "c d", 'e"f', ""]);
  expect(wordsOf("  sh -c 'sleep 1; echo $x'  ")).toEqual(["sh", "-c", "sleep 1; echo $x"]);
  expect(wordsOf("")).toEqual([]);
  expect(() => wordsOf("echo 'a")).toThrow("not closed");
});

test("pairs are read, and what is none is named", () => {
  expect(pairsOf("disk=ssd, zone=a=b")).toEqual({ disk: "ssd", zone: "a=b" });
  expect(JSON.stringify(pairsOf("__proto__=x,constructor=y"))).toBe('{"__proto__":"x","constructor":"y"}');
  expect(() => pairsOf("disk")).toThrow("“disk”");
});
