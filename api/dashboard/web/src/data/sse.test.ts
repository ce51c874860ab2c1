import { describe, expect, test } from "vitest";
import { EventParser } from "./sse";

const stream = 'id: 1.a.0\nevent: list\ndata: {"reason":"start"}\n\n:\n\nid: 2.a.1\nevent: task\ndata: {"id":"é"}\n\n';

describe("the parser of events", () => {
  test("reads events, and comments are none", () => {
    expect(new EventParser().push(stream)).toEqual([
      { id: "1.a.0", kind: "list", data: '{"reason":"start"}' },
      { id: "2.a.1", kind: "task", data: '{"id":"é"}' },
    ]);
  });
  test("does not mind where the stream is cut, nor how lines end", () => {
    const want = new EventParser().push(stream);
    for (const text of [stream, stream.replaceAll("\n", "\r\n"), stream.replaceAll("\n", "\r")]) {
      for (let cut = 0; cut <= text.length; cut++) {
        const p = new EventParser();
        const got = [...p.push(text.slice(0, cut)), ...p.push(text.slice(cut)), ...p.push("")];
        expect(got, `cut at ${cut} of ${JSON.stringify(text)}`).toEqual(want);
      }
    }
  });
  test("joins lines of data, and drops an event that has none or is not complete", () => {
    const p = new EventParser();
    expect(p.push("data: a\ndata:b\ndata\n\nevent: x\n\ndata: half\n")).toEqual([{ id: "", kind: "message", data: "a\nb\n" }]);
    expect(p.push("\n")).toEqual([{ id: "", kind: "message", data: "half" }]);
  });
  test("keeps the last ID, and ignores a byte order mark", () => {
    const p = new EventParser();
    expect(p.push("\uFEFFid: 7\ndata: a\n\ndata: b\n\n").map((e) => e.id)).toEqual(["7", "7"]);
  });
});
