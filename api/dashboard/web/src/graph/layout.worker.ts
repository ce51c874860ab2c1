import dagre from "@dagrejs/dagre";
import type { Edge } from "./forest";

/** What is to be laid out. */
export interface Question {
  id: number;
  vertices: string[];
  edges: Edge[];
  width: number;
  height: number;
  direction: "LR" | "TB";
}

/** Where everything is: the middles of the vertices, and the points of the edges. */
export interface Layout {
  id: number;
  direction: "LR" | "TB";
  width: number;
  height: number;
  places: Record<string, { x: number; y: number }>;
  lines: { from: string; to: string; need: boolean; points: { x: number; y: number }[] }[];
}

function layout(q: Question): Layout {
  const g = new dagre.graphlib.Graph({ multigraph: false });
  g.setGraph({ rankdir: q.direction, nodesep: 14, ranksep: q.direction === "LR" ? 56 : 44, marginx: 16, marginy: 16 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const v of q.vertices) g.setNode(v, { width: q.width, height: q.height });
  for (const e of q.edges) g.setEdge(e.from, e.to, {});
  dagre.layout(g);
  const size = g.graph() as { width?: number; height?: number };
  const answer: Layout = { id: q.id, direction: q.direction, width: size.width ?? 0, height: size.height ?? 0, places: {}, lines: [] };
  for (const v of q.vertices) {
    const place = g.node(v) as { x: number; y: number };
    answer.places[v] = { x: place.x, y: place.y };
  }
  for (const e of q.edges) {
    const edge = g.edge(e.from, e.to) as { points?: { x: number; y: number }[] };
    answer.lines.push({ ...e, points: edge.points ?? [] });
  }
  return answer;
}

self.onmessage = (message: MessageEvent<Question>) => self.postMessage(layout(message.data));
