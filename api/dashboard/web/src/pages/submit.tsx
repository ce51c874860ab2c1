import type { InputHTMLAttributes, JSX } from "preact";
import { useState } from "preact/hooks";
import { Problem, send } from "../data/api";
import { pairsOf, wordsOf } from "../data/words";
import type { SubmitPlan } from "../data/types";
import { go, route, taskHref } from "../router";
import { slow, store } from "../state";
import { Action, Card, ErrorNote, Field, PageHead } from "../ui/parts";
import { explain, toast } from "../ui/toasts";

interface Draft {
  id: string;
  parent: string;
  kind: "exec" | "other";
  type: string;
  command: string;
  props: string;
  priority: string;
  weight: string;
  needs: string;
  require: string;
  node: string;
  group: string;
  timeout: string;
  notBefore: string;
  onFailure: string;
  tags: string;
}

const empty: Draft = {
  id: "", parent: "", kind: "exec", type: "", command: "", props: "", priority: "", weight: "", needs: "", require: "", node: "", group: "",
  timeout: "", notBefore: "", onFailure: "", tags: "",
};

class Mistake extends Error {
  constructor(readonly field: string, message: string) {
    super(message);
  }
}

function reading<T>(field: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new Mistake(field, cause instanceof Error ? cause.message : String(cause));
  }
}

/** What is sent of a draft. A task has an ID and properties, a job a name and data. */
export function bodyOf(d: Draft, job: boolean): Record<string, unknown> {
  const body: Record<string, unknown> = job ? { name: d.id } : { id: d.id };
  body["type"] = d.kind === "exec" && !job ? "exec" : d.type;
  if (!d.id) throw new Mistake("id", "must be given");
  if (!body["type"]) throw new Mistake("type", "must be given");
  if (d.kind === "exec") {
    const command = reading("command", () => wordsOf(d.command));
    if (command.length === 0) throw new Mistake("command", "must be given");
    body[job ? "data" : "props"] = { command };
  } else if (d.props.trim()) {
    body[job ? "data" : "props"] = reading("props", () => JSON.parse(d.props) as unknown);
  }
  if (job && d.parent) body["parent"] = d.parent.replaceAll("|", "/");
  if (d.priority) body["priority"] = Number(d.priority);
  if (d.weight) body["weight"] = Number(d.weight);
  if (d.needs.trim()) body["needs"] = d.needs.split(/[,\s]+/).filter(Boolean);
  if (d.require.trim()) body["require"] = reading("require", () => pairsOf(d.require));
  if (d.node) body["node"] = d.node;
  if (d.group) body["group"] = d.group;
  if (d.timeout) body["timeout"] = d.timeout;
  if (d.notBefore) body["not_before"] = reading("notBefore", () => new Date(d.notBefore).toISOString());
  if (d.onFailure) body["on_failure"] = d.onFailure;
  if (d.tags.trim()) body["tags"] = reading("tags", () => pairsOf(d.tags));
  return body;
}

/** The form for a task, or for a job of the tree. */
export function SubmitPage({ job }: { job: boolean }): JSX.Element {
  void slow.value;
  const [d, setDraft] = useState<Draft>({ ...empty, kind: job ? "other" : "exec", parent: route.value.query.get("parent") ?? "" });
  const [wrong, setWrong] = useState<{ field: string; text: string }>();
  const [error, setError] = useState<unknown>();
  const set = (part: Partial<Draft>): void => setDraft({ ...d, ...part });
  const [plan, setPlan] = useState<SubmitPlan>();
  const [sending, setSending] = useState(false);
  const act = async (dry: boolean): Promise<void> => {
    if (sending) return;
    setSending(true);
    await submit(dry);
    setSending(false);
  };
  const submit = async (dry: boolean): Promise<void> => {
    setWrong(undefined);
    setError(undefined);
    setPlan(undefined);
    try {
      const body = bodyOf(d, job);
      if (dry) return setPlan(await send<SubmitPlan>("POST", "v1/submissions/preview", [body]));
      if (job) {
        await send("POST", "v1/tree/jobs", body);
        toast(`${d.id} was queued.`);
        go("#/trees");
        return;
      }
      const answer = await send<{ existed: number }>("POST", "v1/tasks", body);
      toast(answer?.existed ? `${d.id} had been submitted before.` : `${d.id} was submitted.`);
      go(taskHref(d.id));
    } catch (cause) {
      const field = cause instanceof Mistake ? cause.field : cause instanceof Problem ? fieldOf(cause.field) : "";
      const text = cause instanceof Problem && cause.limit ? cause.limit : explain(cause);
      const place = field && document.getElementById(field);
      if (place) {
        setWrong({ field, text });
        const folded = place.closest("details");
        if (folded) folded.open = true;
        place.focus();
      } else {
        setError(new Error(explain(cause)));
      }
    }
  };
  const input = (field: keyof Draft, label: string, hint = "", more: InputHTMLAttributes = {}): JSX.Element => (
    <Field label={label} hint={hint} for={field} {...(wrong?.field === field ? { error: wrong.text } : {})}>
      <input id={field} value={d[field]} aria-invalid={wrong?.field === field} aria-describedby={hint || wrong?.field === field ? `${field}-hint` : undefined}
        autoComplete="off" spellcheck={false} onInput={(e) => set({ [field]: e.currentTarget.value })} {...more} />
    </Field>
  );
  return (
    <div class="page form">
      <p class="crumbs"><a href={job ? "#/trees" : "#/tasks"}>{job ? "Trees" : "Tasks"}</a></p>
      <PageHead title={job ? "Queue a job" : "Submit a task"} />
      <form onSubmit={(e) => { e.preventDefault(); void act(false); }} noValidate>
        <Card>
          {input("id", job ? "Name" : "ID", job ? "Unique with its type below its parent" : "What it is called; submitting the same again changes nothing")}
          {job && input("parent", "Below", "The path of a job, a_x/b_y; empty for the root")}
          {job && input("type", "Type", "Names the handler that runs it")}
          {!job && (
            <Field label="What it is" for="kind">
              <select id="kind" value={d.kind} onChange={(e) => set({ kind: e.currentTarget.value as Draft["kind"] })}>
                <option value="exec">a command (exec)</option>
                <option value="other">another type</option>
              </select>
            </Field>
          )}
          {!job && d.kind === "other" && input("type", "Type", types())}
          {!job && d.kind === "exec" && input("command", "Command", "Words, quoted as in a shell; no shell runs it. For one: sh -c 'a | b'", { class: "mono", placeholder: 'echo "hello, world"' })}
          {d.kind === "other" && (
            <Field label={job ? "Data" : "Properties"} hint="Any JSON, or nothing" for="props" {...(wrong?.field === "props" ? { error: wrong.text } : {})}>
              <textarea id="props" class="mono" rows={5} spellcheck={false} value={d.props} aria-describedby="props-hint" aria-invalid={wrong?.field === "props"} onInput={(e) => set({ props: e.currentTarget.value })} />
            </Field>
          )}
          {input("tags", "Tags", "To find it by, such as tenant=t7 team=billing; they decide nothing")}
        </Card>
        <details class="card">
          <summary>Where and when it runs</summary>
          <div class="pairs">
            {input("priority", "Priority", "−1000 to 1000; higher is first", { type: "number" })}
            {input("weight", "Weight", "1 to 1000; how much of a node it takes", { type: "number" })}
            {input("needs", "Needs", "IDs of tasks that must be done before")}
            {input("require", "Requires labels", "Such as disk=ssd")}
            {input("node", "Only on node")}
            {input("group", "Group", "Spread over zones and nodes")}
            {input("timeout", "Timeout", "Of each run, such as 1h30m")}
            {input("notBefore", "Not before", "", { type: "datetime-local" })}
            <Field label="If it fails, those that need it" for="onFailure">
              <select id="onFailure" value={d.onFailure} onChange={(e) => set({ onFailure: e.currentTarget.value })}>
                <option value="">wait (block)</option><option value="skip">are skipped</option><option value="run">run all the same</option>
              </select>
            </Field>
          </div>
        </details>
        <ErrorNote error={error} />
        {plan && <Planned plan={plan} />}
        <footer class="formfoot">
          {!job && <Action role="view" onClick={() => void act(true)} blocked={sending ? "It is being sent." : ""}>What would happen?</Action>}
          <Action submit kind="primary" blocked={sending ? "It is being sent." : ""}>{job ? "Queue" : "Submit"}</Action>
        </footer>
      </form>
    </div>
  );
}

/** What submitting one task would do. */
function Planned({ plan }: { plan: SubmitPlan }): JSX.Element {
  const [wait] = plan.waiting;
  return (
    <Card title="What would happen">
      {plan.errors.map((e) => <p key={e} class="note bad">{e}</p>)}
      {plan.existed > 0 && <p>It has been submitted before; nothing would change.</p>}
      {plan.nodes.map((n) => <p key={n.node}>Node <b>{n.node}</b> would claim it.</p>)}
      {wait && <p>It would wait: {wait.why}.</p>}
      {wait && wait.nodes.length > 0 && <ul>{wait.nodes.map((n) => <li key={n.node}><b>{n.node}</b>: {n.why}</li>)}</ul>}
      {(plan.warnings ?? []).map((w) => <p key={w} class="muted">{w}</p>)}
    </Card>
  );
}

/** The field of the form that a field of the API's answer is about. */
function fieldOf(field: string): string {
  const last = field.replace(/^body(\[\d+\])?\.?/, "").split(/[.[]/)[0] ?? "";
  const names = new Map(Object.entries({
    name: "id", "job name": "id", "task ID": "id", "task id": "id", data: "props", not_before: "notBefore", on_failure: "onFailure", "job type": "type",
  }));
  const name = names.get(last) ?? last;
  return Object.hasOwn(empty, name) ? name : "";
}

function types(): string {
  const known = new Set([...store.nodes.values()].flatMap((n) => [...n.types, ...(n.pulls ?? [])]));
  return known.size ? `Nodes run ${[...known].sort().join(", ")}` : "Names the handler that runs it";
}
