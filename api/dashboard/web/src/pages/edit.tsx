import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { send } from "../data/api";
import { count } from "../data/attention";
import { type Change, changesOf, patchOf } from "../data/patch";
import type { TaskDetail } from "../data/types";
import { json } from "../format";
import { Action, Dialog, ErrorNote, Field } from "../ui/parts";
import { explain, toast } from "../ui/toasts";

type Fields = Record<string, unknown>;

/** What the server sets itself. */
const ours = ["job", "restarted_at", "turn", "submitted_at", "digest", "trace", "by"];

/** What of a task can be changed, as a file of tasks has it. */
function fieldsOf(d: TaskDetail): Fields {
  const fields = Object.fromEntries(Object.entries(d.spec ?? {}).filter(([name]) => !ours.includes(name)));
  return d.props === null || d.props === undefined ? fields : { ...fields, props: d.props };
}

interface Edited {
  changes: Change[];
  patch?: Fields;
  wrong?: string;
}

function read(before: Fields, text: string): Edited {
  try {
    const value = JSON.parse(text) as unknown;
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("must be an object, in braces");
    const after = { ...value } as Fields;
    if (after["props"] === null) delete after["props"]; // as if there were none
    return { changes: changesOf(before, after), patch: patchOf(before, after) };
  } catch (cause) {
    return { changes: [], wrong: cause instanceof Error ? cause.message : String(cause) };
  }
}

/** The properties and settings of a live task as JSON, to be changed; it shows what changes before it is sent. */
export function EditDialog({ detail, onClose }: { detail: TaskDetail; onClose: () => void }): JSX.Element {
  const [before] = useState(() => fieldsOf(detail));
  const [text, setText] = useState(() => json({ props: null, ...before }));
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<unknown>();
  const edited = read(before, text);
  const act = async (): Promise<void> => {
    setSending(true);
    setError(undefined);
    try {
      const done = await send<{ changes: unknown[] }>("PATCH", `v1/tasks/${encodeURIComponent(detail.id)}`, edited.patch);
      toast(`${detail.id}: ${count(done?.changes.length ?? 0, "value")} changed.`);
      onClose();
    } catch (cause) {
      setError(new Error(explain(cause)));
    }
    setSending(false);
  };
  return (
    <Dialog title={`Edit ${detail.id}`} wide onClose={onClose}>
      <p>A handler that listens is told of new properties. Any other is stopped, and the task runs again as it is then. A change of tags alone stops nothing.</p>
      <Field label="As it is submitted" for="edit-text" {...(edited.wrong ? { error: edited.wrong } : {})}>
        <textarea id="edit-text" class="mono" rows={14} spellcheck={false} value={text} aria-invalid={!!edited.wrong} aria-describedby={edited.wrong ? "edit-text-hint" : undefined}
          onInput={(e) => setText(e.currentTarget.value)} />
      </Field>
      <ul class="changes" aria-label="What changes">
        {edited.changes.map((c) => (
          <li key={c.path}><b>{c.path}</b> {shown(c.from)} → {shown(c.to)}</li>
        ))}
      </ul>
      <ErrorNote error={error} />
      <footer>
        <button type="button" class="button" onClick={onClose}>Cancel</button>
        <Action kind="primary" blocked={edited.wrong ? "It cannot be read." : edited.changes.length === 0 ? "Nothing is changed." : sending ? "It is being sent." : ""} onClick={() => void act()}>
          Change {edited.changes.length ? count(edited.changes.length, "value") : "it"}
        </Action>
      </footer>
    </Dialog>
  );
}

function shown(value: unknown): JSX.Element {
  return value === undefined || value === null ? <span class="muted">none</span> : <code>{JSON.stringify(value)}</code>;
}
