/** Some items in a row, and how often the same follow after them. */
export interface Fold<T> {
  shown: T[];
  /** The repetitions, which are not shown at first. */
  more: T[];
  /** How many repetitions they are. */
  times: number;
}

/** How many items a repetition has at most, and how often something comes in a row before it is folded. */
const periodMax = 4;
const timesMin = 3;

/** Folds what repeats: the same item, or the same few items, again and again. Nothing is left out. */
export function fold<T>(items: readonly T[], keyOf: (item: T) => string): Fold<T>[] {
  const keys = items.map(keyOf);
  const folds: Fold<T>[] = [];
  for (let at = 0; at < items.length; ) {
    let best = { period: 1, times: 1 };
    for (let period = 1; period <= periodMax; period++) {
      let times = 1;
      while (repeats(keys, at, period, times)) times++;
      if (times >= timesMin && times * period > best.times * best.period) best = { period, times };
    }
    const { period, times } = best;
    folds.push({ shown: items.slice(at, at + period), more: items.slice(at + period, at + period * times), times: times - 1 });
    at += period * times;
  }
  return folds;
}

/** Whether the keys of one more repetition are those of the first. */
function repeats(keys: readonly string[], at: number, period: number, times: number): boolean {
  const next = at + times * period;
  if (next + period > keys.length) return false;
  for (let i = 0; i < period; i++) if (keys[at + i] !== keys[next + i]) return false;
  return true;
}
