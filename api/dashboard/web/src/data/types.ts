/** What the HTTP API answers, as far as the pages use it. */

export const statuses = ["running", "pending", "blocked", "sleeping", "paused", "fault", "completed", "failed", "killed"] as const;
export type Status = (typeof statuses)[number];

/** The statuses of tasks that have not ended, and can be commanded. */
export const liveStatuses: readonly Status[] = ["running", "pending", "blocked", "sleeping", "paused", "fault"];

export interface ErrorEntry {
  timestamp: string;
  error: string;
}

/** How often the handler of a task has started again what it runs. */
export interface Restarts {
  count: number;
  in_a_row: number;
  since?: string;
  last_end: string;
  last_at: string;
  next: string;
}

export interface Task {
  id: string;
  type: string;
  status: Status;
  node: string;
  token: number;
  submitted_at: string | null;
  claimed_at: string | null;
  priority: number;
  weight?: number;
  /** What it waits for and what of that failed, the first ones, and how many there are. */
  blocked_by: string[];
  blocked_by_count?: number;
  failed_needs?: string[];
  failed_needs_count?: number;
  errors: ErrorEntry[];
  /** How many errors count, and how many fail it; missing for none, and for no number. */
  failures?: number;
  failures_max?: number;
  restarts?: Restarts;
  until?: string;
  not_before?: string;
  finished_at?: string;
  tags?: Record<string, string>;
}

export interface Spec {
  type?: string;
  priority?: number;
  needs?: string[];
  weight?: number;
  require?: Record<string, string>;
  prefer?: Record<string, string>;
  node?: string;
  group?: string;
  timeout?: string;
  by?: string;
  retry?: { errors?: number; window?: string; min?: string; max?: string; deaths?: number };
  on_failure?: string;
  job?: boolean;
  tags?: Record<string, string>;
}

export interface TaskDetail extends Task {
  spec: Spec | null;
  props: unknown;
  result: unknown;
  progress: unknown;
  state: { failures?: number } | null;
  /** What it was told and has not done yet. */
  command?: { message: string; until?: string };
}

/** What the processes of a command use together. */
export interface Usage {
  cpu_seconds: number;
  /** Of one core, in the half second before. */
  cpu_share: number;
  memory_bytes: number;
  processes: number;
}

export interface HistoryEntry {
  at: string;
  event: string;
  node?: string;
  token?: number;
  interruption?: boolean;
  detail?: string;
  /** Nobody saw when the claim ended: at the time of the entry at the latest. */
  unseen?: boolean;
}

export interface History {
  claims: number;
  interruptions: number;
  entries: HistoryEntry[];
}

export interface Explanation {
  status: Status;
  node: string;
  why: string;
  decision: string;
  blocked_by: string[] | null;
  blocked_by_count?: number;
  failed_needs?: string[];
  failed_needs_count?: number;
  until: string | null;
  errors: number;
  last_error: string;
  nodes: { node: string; takes: boolean; why: string }[] | null;
}

export interface Cordon {
  at: string;
  by?: string;
  reason?: string;
}

/** A type of tasks, and whether it is paused as a whole. */
export interface TaskType {
  type: string;
  pause?: Cordon;
  tasks: Partial<Record<Status, number>>;
  nodes: string[];
}

export interface FleetNode {
  name: string;
  tasks: number;
  frozen: boolean;
  draining: boolean;
  cordon?: Cordon;
  overloaded?: boolean;
  behind?: string;
  slow_renewal?: string;
  /** When it last renewed its session, if it should have since. */
  silent_since?: string;
  returning?: boolean;
  /** When it is to be back, if it is away. What the others keep for it are its tasks. */
  away_until?: string;
  probation?: string;
  load?: number;
  weight?: number;
  zone: string;
  labels: Record<string, string>;
  capacity: number;
  started_at: string;
  session_ttl: string;
  version: string;
  types: string[];
  pulls?: string[];
  limits?: Record<string, number>;
  incarnation: string;
  host: string;
  problem?: string;
}

/** The record of a node that vanished. */
export interface Death {
  node: string;
  incarnation: string;
  /** What died while the node went on, such as its supervisor. */
  process?: string;
  at: string;
  /** How many claims ended with it. */
  claims: number;
  restarted?: boolean;
  /** The task that explains it, and how many deaths. */
  culprit?: string;
  count?: number;
}

export interface Election {
  name: string;
  leader: string;
  token: number;
  candidates: { name: string; token: number; resigning?: boolean; silent_since?: string }[];
}

export type Role = "view" | "operate" | "admin";

export interface Identity {
  name: string;
  role: Role;
  read_only: boolean;
  namespace: string;
  broker: string;
  version: string;
}

export interface Health {
  broker: { ok: boolean; latency_seconds: number; measured_at: string; problem?: string };
  sessions: { node: string; margin_seconds: number; full_seconds: number }[];
  viewers: number;
}

/** What a server has sampled for charts. */
export interface Past {
  step_seconds: number;
  at: number[];
  tasks: Record<Status, number[]>;
  nodes: number[];
  claims: number[];
  moves: number[];
}

/** Values by name at times in seconds since 1970. */
export interface Samples {
  times: number[];
  values: Record<string, number[]>;
}

export interface Plan {
  nodes: { name: string; change: string; before: number; after: number }[];
  moves: { from: string; to: string; tasks: number }[];
  moved: number;
  waiting: number;
  imbalance_before: number;
  imbalance_after: number;
}

export interface CommandResult {
  id: string;
  message: string;
  result: "sent" | "done" | "failed";
  status?: Status;
  error?: string;
}

export interface Job extends Task {
  path: string;
  name: string;
  parent: string;
  needs: string[];
  reason?: string;
}

/** What submissions would do, of POST v1/submissions/preview. */
export interface SubmitPlan {
  nodes: { node: string; tasks: number }[];
  waiting: { why: string; tasks: number; first: string; nodes: { node: string; takes: boolean; why: string }[] }[];
  existed: number;
  errors: string[];
  warnings?: string[];
}
