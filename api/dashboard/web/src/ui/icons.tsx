import type { JSX } from "preact";
import type { Status } from "../data/types";

/** The shape of each status, so that it is not told by colour alone. Drawn on 16 × 16. */
export const shapes: Record<Status, JSX.Element> = {
  running: <path d="M8 1.2a6.8 6.8 0 1 0 0 13.6A6.8 6.8 0 0 0 8 1.2ZM6.4 5l5 3-5 3Z" fill-rule="evenodd" />,
  pending: <path d="M8 1.2a6.8 6.8 0 1 0 0 13.6A6.8 6.8 0 0 0 8 1.2Zm0 1.7a5.1 5.1 0 1 1 0 10.2A5.1 5.1 0 0 1 8 2.9Z" fill-rule="evenodd" />,
  blocked: <path d="M3 2h10a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V3a1 1 0 0 1 1-1Zm1 5v2h8V7Z" fill-rule="evenodd" />,
  sleeping: <path d="M6.3 1.5a6.7 6.7 0 1 0 8.2 8.3A5.7 5.7 0 0 1 6.3 1.5Z" />,
  paused: <path d="M3.5 2h3v12h-3ZM9.5 2h3v12h-3Z" />,
  fault: <path d="M8 .8 15.2 8 8 15.2.8 8ZM7.1 4.2v4.6h1.8V4.2Zm0 5.8v1.8h1.8V10Z" fill-rule="evenodd" />,
  completed: <path d="M6.2 13.4 1.4 8.6 3 7l3.2 3.2L13 3.4 14.6 5Z" />,
  failed: <path d="m3.4 1.8 4.6 4.6 4.6-4.6 1.6 1.6L9.6 8l4.6 4.6-1.6 1.6L8 9.6l-4.6 4.6-1.6-1.6L6.4 8 1.8 3.4Z" />,
  killed: <path d="M5 1.2h6L14.8 5v6L11 14.8H5L1.2 11V5ZM4.5 7v2h7V7Z" fill-rule="evenodd" />,
};

export function StatusIcon({ status }: { status: Status }): JSX.Element {
  return (
    <svg class={`icon s-${status}`} viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" fill="currentColor">
      {shapes[status]}
    </svg>
  );
}

export function StatusBadge({ status }: { status: Status }): JSX.Element {
  return (
    <span class={`badge s-${status}`}>
      <StatusIcon status={status} />
      {status}
    </span>
  );
}

export function Logo(): JSX.Element {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="var(--accent-solid)" />
      <g fill="none" stroke="#fff" stroke-width="2.4" stroke-linecap="round">
        <circle cx="16" cy="16" r="5" />
        <path d="M16 5v6M16 21v6M5 16h6M21 16h6M8.2 8.2l4.2 4.2M19.6 19.6l4.2 4.2M8.2 23.8l4.2-4.2M19.6 12.4l4.2-4.2" />
      </g>
    </svg>
  );
}
