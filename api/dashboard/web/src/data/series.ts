import type { Samples } from "./types";

/** The latest samples of several values over time, taken in regular steps. */
export class Series {
  /** Seconds since 1970 of each sample, and the values by name, all of one length. */
  readonly times: number[] = [];
  readonly values: Record<string, number[]> = {};

  /** step is in milliseconds; of more samples than most the oldest are dropped. */
  constructor(names: readonly string[], readonly step: number, private readonly most: number) {
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
    if (this.times.length <= this.most) return;
    this.times.shift();
    for (const list of Object.values(this.values)) list.shift();
  }

  /**
   * Takes samples that a server has taken instead of those here, if they are as many or
   * more. ahead is by how many milliseconds its clock is.
   */
  take(samples: Samples, ahead: number): void {
    if (samples.times.length < this.times.length) return;
    this.times.splice(0, this.times.length, ...samples.times.map((t) => t - ahead / 1000));
    for (const [name, list] of Object.entries(this.values)) list.splice(0, list.length, ...(samples.values[name] ?? samples.times.map(() => 0)));
  }
}

/** A total that was counted elsewhere, as if it had been counted here and were now at a value. */
export function continued(totals: number[], now: number): number[] {
  const last = totals.at(-1) ?? 0;
  return totals.map((total) => total - last + now);
}

/** Data of a chart, times and then the values of each line, with nothing where samples are missing. */
export function withGaps(data: readonly number[][], step: number): (number | null)[][] {
  const [times = []] = data;
  const shown: (number | null)[][] = data.map(() => []);
  times.forEach((t, i) => {
    const before = times[i - 1] ?? t;
    if ((t - before) * 1000 > gapFrom * step) shown.forEach((list, n) => list.push(n === 0 ? (before + t) / 2 : null));
    shown.forEach((list, n) => list.push(data[n]?.[i] ?? null));
  });
  return shown;
}

/** From how many steps between two samples on some are missing: one may be late. */
const gapFrom = 2.5;

/** Changes per second between neighbouring samples of a total that only rises. */
export function rates(times: number[], totals: number[]): number[] {
  return totals.map((total, i) => {
    const seconds = (times[i] ?? 0) - (times[i - 1] ?? 0);
    return i === 0 || seconds <= 0 ? 0 : (total - (totals[i - 1] ?? 0)) / seconds;
  });
}
