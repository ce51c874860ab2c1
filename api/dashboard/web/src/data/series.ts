/**
 * Series keeps samples of several values over time in bounded memory: when there are
 * too many, every second one is dropped and from then on half as many are taken, so
 * that it always covers everything since it was begun.
 */
export class Series {
  /** Seconds since 1970 of each sample, and the values by name, all of one length. */
  readonly times: number[] = [];
  readonly values: Record<string, number[]> = {};
  /** Milliseconds between samples. */
  step: number;

  constructor(names: readonly string[], step = 1000, private readonly most = 720) {
    this.step = step;
    for (const name of names) this.values[name] = [];
  }

  /** Whether a sample is due at a time in milliseconds since 1970. */
  due(now: number): boolean {
    const last = this.times.at(-1);
    return last === undefined || now - last * 1000 >= this.step - 1;
  }

  push(now: number, sample: Record<string, number>): void {
    this.times.push(now / 1000);
    for (const [name, list] of Object.entries(this.values)) list.push(sample[name] ?? 0);
    if (this.times.length < this.most) return;
    this.step *= 2;
    halve(this.times);
    for (const list of Object.values(this.values)) halve(list);
  }
}

/** Keeps every second one, and the latest. */
function halve(list: number[]): void {
  const kept = list.filter((_, i) => (list.length - 1 - i) % 2 === 0);
  list.splice(0, list.length, ...kept);
}

/** Changes per second between neighbouring samples of a total that only rises. */
export function rates(times: number[], totals: number[]): number[] {
  return totals.map((total, i) => {
    const seconds = (times[i] ?? 0) - (times[i - 1] ?? 0);
    return i === 0 || seconds <= 0 ? 0 : (total - (totals[i - 1] ?? 0)) / seconds;
  });
}
