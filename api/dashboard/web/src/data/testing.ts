import type { Status, Task } from "./types";

/** A task for tests. */
export function task(id: string, status: Status = "pending", more: Partial<Task> = {}): Task {
  return {
    id, status, type: "exec", node: "", token: 0, submitted_at: "2026-01-02T03:04:05Z", claimed_at: null, priority: 0,
    blocked_by: [], errors: [], ...more,
  };
}

