import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { withGaps } from "../data/series";
import { scheme } from "./theme";

/** One line or area of a chart; its colour is a variable of the style sheet. */
export interface Line {
  label: string;
  color: string;
}

/**
 * A chart over time. Areas are stacked, the first at the bottom; the data are the
 * times and then the values of each line. The numbers stand in the legend beside it,
 * so it is hidden from readers of the screen.
 */
export function Chart({ lines, data, step, stacked, height, format, least }: {
  lines: Line[]; data: number[][];
  /** The milliseconds between two samples; where more are missing the lines are broken. */
  step: number; stacked: boolean; height: number; format: (value: number) => string;
  /** The top of the scale when the values are smaller. */
  least: number;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const key = `${lines.map((l) => l.label).join()} ${scheme.value}`;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const made = new uPlot(options(lines, stacked, element.clientWidth, height, least, format), shaped(data, step, stacked) as uPlot.AlignedData, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [key]);
  useEffect(() => plot.current?.setData(shaped(data, step, stacked) as uPlot.AlignedData), [data]);
  return <div class="chart" ref={box} aria-hidden="true" />;
}

/** Times of day, of the time zone here. */
const toSecond = uPlot.fmtDate("{HH}:{mm}:{ss}");
const toMinute = uPlot.fmtDate("{HH}:{mm}");

/** Stacked data, the topmost line first, so that lower areas are drawn over it. */
function shaped(data: number[][], step: number, stacked: boolean): (number | null)[][] {
  const whole = withGaps(data, step);
  const [times = [], ...values] = whole;
  if (!stacked) return whole;
  const sums: (number | null)[][] = [];
  let below: (number | null)[] = times.map(() => 0);
  for (const list of values) {
    below = list.map((v, i) => (v === null ? null : v + (below[i] ?? 0)));
    sums.unshift(below);
  }
  return [times, ...sums];
}

function options(lines: Line[], stacked: boolean, width: number, height: number, least: number, format: (value: number) => string): uPlot.Options {
  const css = getComputedStyle(document.documentElement);
  const color = (name: string): string => css.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: color("--muted"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: `11px ${color("--font")}`,
  };
  const ordered = stacked ? [...lines].reverse() : lines;
  return {
    width, height, legend: { show: false }, padding: [8, 22, 0, 0], cursor: { show: false },
    scales: { y: { range: (_, __, max: number | null) => [0, Math.max((max ?? 0) * 1.1, least)] } },
    axes: [
      { ...axis, size: 26, space: 90, values: (_, times, __, ___, step) => times.map((t) => (step < 60 ? toSecond : toMinute)(new Date(t * 1000))), grid: { show: false } },
      { ...axis, size: 54, space: 28, values: (_, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...ordered.map((l): uPlot.Series => {
        const series: uPlot.Series = { label: l.label, stroke: color(l.color), width: stacked ? 1 : 1.75, points: { show: false } };
        if (stacked) series.fill = `color-mix(in srgb, ${color(l.color)} 45%, ${color("--surface")})`;
        return series;
      }),
    ],
  };
}
