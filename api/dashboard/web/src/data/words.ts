/**
 * Splits a command line into words as a shell does, without running anything: spaces
 * part, quotes and backslashes keep together. An unfinished quote is an error.
 */
export function wordsOf(line: string): string[] {
  const words: string[] = [];
  let word = "";
  let begun = false;
  let quote = "";
  for (let i = 0; i < line.length; i++) {
    const c = line.charAt(i);
    if (quote === "'") {
      if (c === "'") quote = "";
      else word += c;
    } else if (c === "\\" && i + 1 < line.length && (!quote || '"\\$`'.includes(line.charAt(i + 1)))) {
      word += line.charAt(++i);
      begun = true;
    } else if (quote) {
      if (c === quote) quote = "";
      else word += c;
    } else if (c === "'" || c === '"') {
      quote = c;
      begun = true;
    } else if (/\s/.test(c)) {
      if (begun) words.push(word);
      word = "";
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote) throw new Error(`the quote ${quote} is not closed`);
  if (begun) words.push(word);
  return words;
}

/** Reads key=value pairs, separated by commas or spaces. */
export function pairsOf(text: string): Record<string, string> {
  const pairs = new Map<string, string>(); // in an object __proto__ would get lost
  for (const part of text.split(/[,\s]+/)) {
    if (!part) continue;
    const at = part.indexOf("=");
    if (at < 1) throw new Error(`“${part}” must be like key=value`);
    pairs.set(part.slice(0, at), part.slice(at + 1));
  }
  return Object.fromEntries(pairs);
}
