import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { scrollTo, windowOf } from "../data/window";
import { typing } from "./keys";

/** A long list of which only the rows that are seen are in the page. */
export interface GridProps {
  label: string;
  role: "grid" | "treegrid";
  /** The names of the rows, in order. They must stay the same for the same row. */
  ids: readonly string[];
  rowHeight: number;
  head: ComponentChildren;
  /** Draws a row into its place. */
  row: (id: string, index: number, place: RowPlace) => JSX.Element;
  onOpen: (id: string) => void;
  /** Takes the keys that the list does not know; true if it was one of its own. */
  onKey?: (e: KeyboardEvent, id: string | undefined) => boolean;
}

export interface RowPlace {
  /** Which of the rows in the page it is drawn into: fast scrolling fills them anew and makes no others. */
  slot: number;
  active: boolean;
  id: string;
  style: string;
  onPointerDown: () => void;
}

let grids = 0;

/** around is how many rows are drawn above and below those that are seen. */
const around = 8;

/** The list, with the keys j, k, arrows, pages, Home, End and Enter. */
export function Grid({ label, role, ids, rowHeight, head, row, onOpen, onKey }: GridProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [prefix] = useState(() => `grid${++grids}`);
  const [scroll, setScroll] = useState({ top: 0, height: 600 });
  const [activeId, setActiveId] = useState("");
  const headHeight = 34;
  const viewHeight = Math.max(rowHeight, scroll.height - headHeight);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = (): void => setScroll({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const found = activeId ? ids.indexOf(activeId) : -1;
  const last = useRef(0);
  const active = found >= 0 ? found : Math.min(last.current, ids.length - 1);
  useEffect(() => {
    last.current = Math.max(0, active);
  });
  const w = windowOf(ids.length, rowHeight, scroll.top, viewHeight, around);

  const move = (to: number): void => {
    const element = box.current;
    if (!element || ids.length === 0) return;
    const index = Math.min(ids.length - 1, Math.max(0, to));
    setActiveId(ids[index] ?? "");
    element.scrollTop = scrollTo(index, rowHeight, element.scrollTop, viewHeight);
    setScroll({ top: element.scrollTop, height: element.clientHeight });
  };
  const keydown = (e: KeyboardEvent): void => {
    if (typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === " " && e.target instanceof HTMLButtonElement) return; // it presses the button
    const page = Math.max(1, Math.floor(viewHeight / rowHeight) - 1);
    const steps: Record<string, number> = {
      j: active + 1, ArrowDown: active + 1, k: active - 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: ids.length - 1,
    };
    const step = steps[e.key];
    const id = ids[active];
    if (step !== undefined) move(found < 0 && activeId === "" ? (step < active ? 0 : Math.min(step, active)) : step);
    else if (e.key === "Enter" && id && e.target === box.current) onOpen(id);
    else if (!onKey?.(e, id)) return;
    e.preventDefault();
    e.stopPropagation();
  };

  // More than are ever drawn at once, so that no two rows have the same one.
  const slots = Math.ceil(viewHeight / rowHeight) + 2 * around + 2;
  const rows: JSX.Element[] = [];
  for (let i = w.from; i < w.to; i++) {
    const id = ids[i];
    if (id === undefined) continue;
    rows.push(row(id, i, {
      slot: i % slots, active: i === active && activeId !== "", id: `${prefix}-${i}`, style: `transform: translateY(${i * rowHeight}px); height: ${rowHeight}px`,
      onPointerDown: () => setActiveId(id),
    }));
  }
  return (
    <div
      ref={box}
      class="grid"
      role={role}
      aria-label={label}
      aria-rowcount={ids.length + 1}
      aria-multiselectable={role === "grid" ? true : undefined}
      aria-activedescendant={active >= w.from && active < w.to && activeId !== "" ? `${prefix}-${active}` : undefined}
      tabIndex={0}
      data-list
      onScroll={(e) => setScroll({ top: e.currentTarget.scrollTop, height: e.currentTarget.clientHeight })}
      onKeyDown={keydown}
    >
      <div role="rowgroup" class="gridhead">
        <div role="row" aria-rowindex={1} class="row">{head}</div>
      </div>
      <div role="rowgroup" class="gridbody" style={{ height: `${w.height}px` }}>{rows}</div>
    </div>
  );
}
