import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { refusal, serverClock } from "../state";
import { short, time } from "../format";
import type { Role } from "../data/types";

/** A page's heading, with what can be done on it. */
export function PageHead({ title, count, children }: { title: ComponentChildren; count?: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="pagehead">
      <h1 id="title" tabIndex={-1}>
        {title}
        {count !== undefined && <span class="count">{count}</span>}
      </h1>
      <div class="actions">{children}</div>
    </div>
  );
}

export function Card({ title, children, aside, class: name = "" }: {
  title?: string; children: ComponentChildren; aside?: ComponentChildren; class?: string;
}): JSX.Element {
  return (
    <section class={`card ${name}`}>
      {title && (
        <header>
          <h2>{title}</h2>
          {aside}
        </header>
      )}
      {children}
    </section>
  );
}

/** What a page shows instead of nothing. */
export function Empty({ title, children, art = "○" }: { title: string; children?: ComponentChildren; art?: string }): JSX.Element {
  return (
    <div class="empty">
      <div class="art" aria-hidden="true">{art}</div>
      <p class="what">{title}</p>
      {children && <div class="hint">{children}</div>}
    </div>
  );
}

export function ErrorNote({ error }: { error: unknown }): JSX.Element | null {
  if (!error) return null;
  return (
    <p class="note bad" role="alert">
      {error instanceof Error ? error.message : String(error)}
    </p>
  );
}

/** A button that says why it cannot be used, and can be focused nevertheless. */
export function Action({ role = "operate", onClick, children, kind = "", blocked = "", submit = false }: {
  role?: Role; onClick?: () => void; children: ComponentChildren; kind?: string; blocked?: string; submit?: boolean;
}): JSX.Element {
  const why = refusal(role) || blocked;
  return (
    <button
      type={submit ? "submit" : "button"}
      class={`button ${kind}`}
      aria-disabled={why !== ""}
      title={why || undefined}
      onClick={(e) => {
        if (why) e.preventDefault();
        else onClick?.();
      }}
    >
      {children}
      {why && <span class="sr-only"> ({why})</span>}
    </button>
  );
}

/** How long ago something was, with the time itself to be seen on it. */
export function Ago({ at, after = "" }: { at: string | null | undefined; after?: string }): JSX.Element {
  if (!at) return <span class="muted">–</span>;
  const ms = serverClock.value - Date.parse(at);
  return (
    <time dateTime={at} title={time(at)}>
      {ms < 0 ? `in ${short(-ms)}` : short(ms)}
      {ms < 0 ? "" : after}
    </time>
  );
}

/** A bar that is filled in part; the number stands beside it. */
export function Bar({ percent, kind }: { percent: number; kind: string }): JSX.Element {
  return <span class={`bar ${kind}`} aria-hidden="true"><i style={{ width: `${Math.min(100, percent)}%` }} /></span>;
}

/** A window above the page. The browser keeps the focus in it, and gives it back. */
export function Dialog({ title, onClose, children, wide = false }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  const leaving = useRef(false);
  useLayoutEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => {
      leaving.current = true;
      dialog?.close();
    };
  }, []);
  // Browsers close a window on a second Escape without asking; one that is still wanted is opened again.
  const closed = (): void => {
    if (leaving.current) return;
    onClose();
    setTimeout(() => {
      if (!leaving.current && ref.current?.isConnected && !ref.current.open) ref.current.showModal();
    });
  };
  return (
    <dialog
      ref={ref}
      class={wide ? "wide" : ""}
      aria-labelledby="dialog-title"
      onClose={closed}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClick={(e) => {
        if (e.target === ref.current) onClose();
      }}
    >
      <div class="dialog">
        <header>
          <h2 id="dialog-title">{title}</h2>
          <button type="button" class="button quiet" aria-label="Close" onClick={onClose}>✕</button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** A label with its field, and what is wrong with it. */
export function Field({ label, hint, error, children, for: id }: {
  label: string; hint?: ComponentChildren; error?: string; children: ComponentChildren; for: string;
}): JSX.Element {
  return (
    <div class={`field ${error ? "wrong" : ""}`}>
      <label for={id}>{label}</label>
      {children}
      {error ? <p class="error" id={`${id}-hint`} role="alert">{error}</p> : hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
    </div>
  );
}
