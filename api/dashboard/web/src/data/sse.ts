/** One server-sent event. */
export interface ServerEvent {
  /** ID of the event; the one before it if it has none of its own. */
  id: string;
  kind: string;
  data: string;
}

/**
 * Parses a stream of server-sent events, in whatever pieces it comes, as the HTML
 * standard has it: lines end in LF, CR or CRLF, data lines are joined, an event
 * without data is none, and one that the stream breaks off in is dropped.
 */
export class EventParser {
  private rest = "";
  private data: string[] = [];
  private kind = "";
  private id = "";
  /** endedInCR tells that an LF that comes next belongs to the line before. */
  private endedInCR = false;
  private first = true;
  private begun = false;

  /** Whether what came last is the beginning of an event. */
  get within(): boolean {
    return this.begun || this.rest !== "";
  }

  push(text: string): ServerEvent[] {
    if (this.first && text !== "") {
      this.first = false;
      text = text.replace(/^\uFEFF/, "");
    }
    if (this.endedInCR && text.startsWith("\n")) text = text.slice(1);
    if (text !== "") this.endedInCR = text.endsWith("\r");
    const lines = (this.rest + text).split(/\r\n|\r|\n/);
    this.rest = lines.pop() ?? "";
    const events: ServerEvent[] = [];
    for (const line of lines) {
      const event = this.line(line);
      if (event) events.push(event);
    }
    return events;
  }

  private line(line: string): ServerEvent | undefined {
    if (line === "") return this.dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    this.begun = true;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.data.push(value);
    else if (field === "event") this.kind = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
    return undefined;
  }

  private dispatch(): ServerEvent | undefined {
    const { data, kind } = this;
    this.data = [];
    this.kind = "";
    this.begun = false;
    if (data.length === 0) return undefined;
    return { id: this.id, kind: kind || "message", data: data.join("\n") };
  }
}
