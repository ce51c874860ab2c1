/** Where a drawing is seen: screen = drawing × scale + offset. */
export interface Viewport {
  x: number;
  y: number;
  scale: number;
}

/** scaleMin is the least scale that is zoomed to; a large drawing is fitted with less. */
export const scaleMin = 0.08;
export const scaleMax = 2.5;

/** Zooms by a factor about a point of the screen, which stays where it is. */
export function zoomed(v: Viewport, factor: number, x: number, y: number): Viewport {
  const scale = Math.min(scaleMax, Math.max(Math.min(scaleMin, v.scale), v.scale * factor));
  const by = scale / v.scale;
  return { scale, x: x - (x - v.x) * by, y: y - (y - v.y) * by };
}

/** Shows the whole drawing, in the middle, and no larger than it is. */
export function fitted(width: number, height: number, viewWidth: number, viewHeight: number): Viewport {
  if (width <= 0 || height <= 0) return { x: 0, y: 0, scale: 1 };
  const scale = Math.min(1, viewWidth / width, viewHeight / height);
  return { scale, x: (viewWidth - width * scale) / 2, y: (viewHeight - height * scale) / 2 };
}

/** Keeps a part of the drawing in sight. */
export function bounded(v: Viewport, width: number, height: number, viewWidth: number, viewHeight: number, least = 60): Viewport {
  const x = Math.min(viewWidth - least, Math.max(least - width * v.scale, v.x));
  const y = Math.min(viewHeight - least, Math.max(least - height * v.scale, v.y));
  return { ...v, x, y };
}
