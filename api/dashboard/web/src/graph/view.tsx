import type { JSX, SVGAttributes } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fit } from "../data/fit";
import { shapes } from "../ui/icons";
import { narrow } from "../ui/theme";
import type { Drawing, Vertex } from "./forest";
import type { Layout, Question } from "./layout.worker";
import { bounded, fitted, type Viewport, zoomed } from "./viewport";

const vertexWidth = 168;
const vertexHeight = 40;

/**
 * Lays a drawing out beside the page, so that it does not stop while that lasts. "failed"
 * is what a page gets that is older than the server: the script for it is not there any more.
 */
function useLayout(drawing: Drawing, direction: "LR" | "TB"): Layout | "failed" | undefined {
  const [layout, setLayout] = useState<Layout | "failed">();
  const worker = useRef<Worker | null>(null);
  const asked = useRef(0);
  // The statuses change often and the places do not depend on them.
  const shape = useMemo(() => JSON.stringify([direction, drawing.vertices.map((v) => v.id), drawing.edges]), [drawing, direction]);
  useEffect(() => {
    const w = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    w.onmessage = (message: MessageEvent<Layout>) => {
      if (message.data.id === asked.current) setLayout(message.data);
    };
    w.onerror = () => setLayout("failed");
    worker.current = w;
    return () => w.terminate();
  }, []);
  useEffect(() => {
    const question: Question = {
      id: ++asked.current, vertices: drawing.vertices.map((v) => v.id), edges: drawing.edges, width: vertexWidth, height: vertexHeight, direction,
    };
    worker.current?.postMessage(question);
  }, [shape]);
  return layout;
}

/** The jobs as a graph that is moved by dragging and zoomed by the wheel, two fingers, or keys. */
export function GraphView({ drawing, fold, onOpen, onUnfold }: { drawing: Drawing; fold: boolean; onOpen: (id: string) => void; onUnfold: () => void }): JSX.Element {
  const laid = useLayout(drawing, narrow.value ? "TB" : "LR");
  const layout = laid === "failed" ? undefined : laid;
  const box = useRef<SVGSVGElement>(null);
  const [view, setView] = useState<Viewport>();
  /** Whether somebody has moved it: until then, and after unfolding, it fits itself. */
  const moved = useRef(false);
  const size = (): [number, number] => [box.current?.clientWidth ?? 1, box.current?.clientHeight ?? 1];
  const fit = (): void => {
    moved.current = false;
    if (layout) setView(fitted(layout.width, layout.height, ...size()));
  };
  useEffect(() => {
    moved.current = false;
  }, [fold, layout?.direction]);
  useEffect(() => {
    if (!moved.current) fit();
  }, [layout]);
  const keep = (v: Viewport): void => {
    moved.current = true;
    setView(layout ? bounded(v, layout.width, layout.height, ...size()) : v);
  };
  const shown = view ?? { x: 0, y: 0, scale: 1 };
  const zoom = (factor: number, x = size()[0] / 2, y = size()[1] / 2): void => keep(zoomed(shown, factor, x, y));
  const drag = useDrag(shown, keep);
  useWheel(box, (factor, x, y) => zoom(factor, x, y));
  const keydown = (e: KeyboardEvent): void => {
    const step = 60;
    const moves: Record<string, [number, number]> = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    const by = moves[e.key];
    if (by) keep({ ...shown, x: shown.x + by[0], y: shown.y + by[1] });
    else if (e.key === "+" || e.key === "=") zoom(1.25);
    else if (e.key === "-") zoom(0.8);
    else if (e.key === "0") fit();
    else return;
    e.preventDefault();
  };
  const places = layout?.places ?? {};
  return (
    <div class="graph">
      {laid === "failed" && <p class="note bad" role="alert">The graph cannot be drawn: the server is of another version than this page. Load the page anew, or look at the list.</p>}
      <svg ref={box} role="group" aria-label="Graph of the jobs; the list shows the same" onKeyDown={keydown} {...drag}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8Z" class="arrow" /></marker>
        </defs>
        <g transform={`translate(${shown.x} ${shown.y}) scale(${shown.scale})`}>
          {layout?.lines.map((l) => <path key={`${l.from}\n${l.to}`} class={`edge ${l.need ? "need" : ""}`} d={curve(l.points)} marker-end="url(#arrow)" />)}
          {drawing.vertices.map((v) => {
            const place = places[v.id];
            return place && <VertexView key={v.id} v={v} x={place.x} y={place.y} onOpen={onOpen} onUnfold={onUnfold} />;
          })}
        </g>
      </svg>
      <div class="zoom">
        <button type="button" class="button" aria-label="Zoom in" onClick={() => zoom(1.25)}>+</button>
        <button type="button" class="button" aria-label="Zoom out" onClick={() => zoom(0.8)}>−</button>
        <button type="button" class="button" onClick={fit}>Fit</button>
      </div>
    </div>
  );
}

/** A curve through the points, in the middle between each two of them. */
function curve(points: { x: number; y: number }[]): string {
  const [from, ...rest] = points;
  if (!from) return "";
  let d = `M${from.x} ${from.y}`;
  rest.forEach((p, i) => {
    const next = rest[i + 1];
    d += next && i < rest.length - 2 ? `Q${p.x} ${p.y} ${(p.x + next.x) / 2} ${(p.y + next.y) / 2}` : next ? `Q${p.x} ${p.y} ${next.x} ${next.y}` : "";
  });
  return rest.length === 1 && rest[0] ? `${d}L${rest[0].x} ${rest[0].y}` : d;
}

/** Where the text of a box begins, and how much of its width is left for it. */
const textAt = 36;
const textWidth = vertexWidth - textAt - 8;

const pen = document.createElement("canvas").getContext("2d");

/** What texts were cut to, by font and text: a graph is drawn again with every change. */
const cuts = new Map<string, string>();
const cutsMax = 10_000;

/** As much of a text as there is room for when it is drawn in a font of the page's family. */
function fitting(text: string, font: string): string {
  const key = `${font}\n${text}`;
  const known = cuts.get(key);
  if (known !== undefined || !pen) return known ?? text;
  pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  const cut = fit(text, textWidth, (part) => pen.measureText(part).width);
  if (cuts.size >= cutsMax) cuts.clear();
  cuts.set(key, cut);
  return cut;
}

function VertexView({ v, x, y, onOpen, onUnfold }: { v: Vertex; x: number; y: number; onOpen: (id: string) => void; onUnfold: () => void }): JSX.Element {
  const act = (): void => (v.folded ? onUnfold() : onOpen(v.id));
  const below = v.folded ? "show them" : `${v.status} · ${v.node || v.type}`;
  return (
    <g
      class={`vertex s-${v.status} ${v.folded ? "folded" : ""}`} transform={`translate(${x - vertexWidth / 2} ${y - vertexHeight / 2})`}
      role="button" tabIndex={0} data-id={v.id} aria-description={v.type}
      onClick={act}
      onKeyDown={(e) => {
        if (e.key !== "Enter" && e.key !== " ") return;
        e.preventDefault();
        act();
      }}
    >
      <rect width={vertexWidth} height={vertexHeight} rx="7"><title>{v.folded ? v.label : `${v.label}, ${v.type}`}</title></rect>
      <g transform="translate(11 12)" fill="currentColor" class="shape">{shapes[v.status]}</g>
      <text x={textAt} y="17" class="name">{fitting(v.label, "600 12.5px")}</text>
      <text x={textAt} y="32" class="type">{fitting(below, "10.5px")}</text>
    </g>
  );
}

/** dragMin is by how many pixels the pointer moves before that is no click any more. */
const dragMin = 4;

/** Dragging with one pointer, and zooming with two. */
function useDrag(view: Viewport, keep: (v: Viewport) => void): SVGAttributes<SVGSVGElement> {
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const moved = useRef(0);
  return {
    onPointerDown: (e) => {
      pointers.current.set(e.pointerId, { x: e.clientX, y: e.clientY });
      moved.current = 0;
    },
    onPointerMove: (e) => {
      const before = pointers.current.get(e.pointerId);
      if (!before) return;
      const now = { x: e.clientX, y: e.clientY };
      const others = [...pointers.current].filter(([id]) => id !== e.pointerId).map(([, p]) => p);
      pointers.current.set(e.pointerId, now);
      moved.current += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (moved.current < dragMin) return;
      if (!e.currentTarget.hasPointerCapture(e.pointerId)) e.currentTarget.setPointerCapture(e.pointerId);
      const other = others[0];
      if (!other) {
        keep({ ...view, x: view.x + now.x - before.x, y: view.y + now.y - before.y });
        return;
      }
      const rect = e.currentTarget.getBoundingClientRect();
      const factor = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
      keep(zoomed(view, factor, (now.x + other.x) / 2 - rect.left, (now.y + other.y) / 2 - rect.top));
    },
    onPointerUp: (e) => void pointers.current.delete(e.pointerId),
    onPointerCancel: (e) => void pointers.current.delete(e.pointerId),
    onClickCapture: (e) => {
      if (moved.current >= dragMin) e.stopPropagation();
    },
  };
}

/** The wheel zooms; it must not scroll the page, so the listener is not a passive one. */
function useWheel(box: { current: SVGSVGElement | null }, zoom: (factor: number, x: number, y: number) => void): void {
  const latest = useRef(zoom);
  latest.current = zoom;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const wheel = (e: WheelEvent): void => {
      e.preventDefault();
      const rect = element.getBoundingClientRect();
      latest.current(Math.exp(-e.deltaY * (e.deltaMode === 1 ? 0.05 : 0.0016)), e.clientX - rect.left, e.clientY - rect.top);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
}
