/** The part of a long list that is drawn. */
export interface Window {
  /** Index of the first row that is drawn, and of the one after the last. */
  from: number;
  to: number;
  /** Pixels above the first row, and of the whole list. */
  top: number;
  height: number;
}

/** Which rows to draw: those to be seen, and some around them for fast scrolling. */
export function windowOf(rows: number, rowHeight: number, scrollTop: number, viewHeight: number, around = 8): Window {
  const seen = Math.ceil(viewHeight / rowHeight) + 1;
  const first = Math.min(Math.max(0, Math.floor(scrollTop / rowHeight)), Math.max(0, rows - seen));
  const from = Math.max(0, first - around);
  const to = Math.min(rows, first + seen + around);
  return { from, to, top: from * rowHeight, height: rows * rowHeight };
}

/** Where to scroll so that a row is seen whole; as it was if it is. */
export function scrollTo(row: number, rowHeight: number, scrollTop: number, viewHeight: number): number {
  const top = row * rowHeight;
  if (top < scrollTop) return top;
  if (top + rowHeight > scrollTop + viewHeight) return top + rowHeight - viewHeight;
  return scrollTop;
}
