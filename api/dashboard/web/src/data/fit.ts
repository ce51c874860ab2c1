/** The longest beginning of a text that is not wider than there is room for; one that is cut ends with an ellipsis. */
export function fit(text: string, width: number, measure: (part: string) => number): string {
  if (measure(text) <= width) return text;
  const letters = [...text];
  let low = 0, high = letters.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (measure(`${letters.slice(0, middle).join("")}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}
