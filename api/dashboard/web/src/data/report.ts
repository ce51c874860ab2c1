import { bytes, duration } from "../format";
import type { TaskDetail, Usage } from "./types";

/** What a node says of a command that runs: none of it before it was asked. */
export interface Report {
  at?: string;
  output?: string;
  usage?: Usage;
  /** Why the log lacks output. */
  log_error?: string;
}

/**
 * The report that the node has stored when it was told to save the progress, empty before
 * there is one. Undefined for a task that runs no command now.
 */
export function reportOf(d: TaskDetail): Report | undefined {
  if (d.type !== "exec" || d.status !== "running") return undefined;
  const output = outputOf(d.progress);
  const { at, usage } = (d.progress ?? {}) as { at?: unknown; usage?: unknown };
  if (output === undefined || typeof at !== "string") return {};
  const report: Report = { at, output };
  if (isUsage(usage)) report.usage = usage;
  const lacks = logErrorOf(d.progress);
  if (lacks) report.log_error = lacks;
  return report;
}

/** Why the log of a command lacks output, where a value says so; empty if it does not. */
export function logErrorOf(value: unknown): string {
  const { log_error, log_missing } = (value ?? {}) as { log_error?: unknown; log_missing?: unknown };
  if (typeof log_error !== "string" || !log_error) return "";
  return typeof log_missing === "number" && log_missing > 0 ? `${log_missing} bytes are missing: ${log_error}` : log_error;
}

/**
 * Why the log of the last run lacks output, empty if it does not. While the command runs its node has reported that; a
 * report of an earlier claim is of another run.
 */
export function lacksOf(d: TaskDetail): string {
  if (d.status !== "running") return logErrorOf(d.result);
  const { at = "", log_error = "" } = reportOf(d) ?? {};
  return d.claimed_at && Date.parse(at) < Date.parse(d.claimed_at) ? "" : log_error;
}

/** How many processes the program of a run has left behind when it exited, where a result says so. */
export function outlivedOf(result: unknown): number {
  const { outlived } = (result ?? {}) as { outlived?: unknown };
  return typeof outlived === "number" ? outlived : 0;
}

/** What a command has printed, where a value has it. */
export function outputOf(result: unknown): string | undefined {
  if (typeof result !== "object" || result === null || !("output" in result)) return undefined;
  return typeof result.output === "string" ? result.output : undefined;
}

/** Whether a value is a usage; a handler of a program may save anything as its progress. */
function isUsage(value: unknown): value is Usage {
  const u = value as Partial<Record<keyof Usage, unknown>> | null | undefined;
  return [u?.cpu_seconds, u?.cpu_share, u?.memory_bytes, u?.processes].every((n) => typeof n === "number");
}

/** A usage in words. */
export function usageText(u: Usage): string {
  const where = `${u.processes} ${u.processes === 1 ? "process" : "processes"}`;
  return `CPU ${Math.round(u.cpu_share * 100)}%, ${duration(u.cpu_seconds * 1000)} in all · memory ${bytes(u.memory_bytes)} in ${where}`;
}
