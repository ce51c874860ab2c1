import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, send } from "../data/api";
import { closed, count, whenBack } from "../data/attention";
import { drainOf } from "../data/drain";
import type { FleetNode, Plan } from "../data/types";
import { number, seconds } from "../format";
import { health, serverClock, slow, store } from "../state";
import { StatusIcon } from "../ui/icons";
import { typing } from "../ui/keys";
import { Action, Ago, Bar, Card, Dialog, Empty, ErrorNote, Field, PageHead } from "../ui/parts";
import { attempt, explain } from "../ui/toasts";

/** The weights of the tasks that each node holds. */
export function weightsByNode(): Map<string, number> {
  const weights = new Map<string, number>();
  for (const t of store.tasks.values()) {
    if (t.node && t.token && !t.finished_at && t.claimed_at) weights.set(t.node, (weights.get(t.node) ?? 0) + (t.weight || 1));
  }
  return weights;
}

/** How full a node is, from 0 to 1: of its capacity, or else beside the fullest one. */
export function loadOf(n: FleetNode, weights: ReadonlyMap<string, number>, most: number): number {
  return Math.min(1, (weights.get(n.name) ?? 0) / (n.capacity || most));
}

/** Where the tasks that a node holds are listed, whether they run or are at rest. */
export function heldHref(node: string): string {
  return `#/tasks?${["running", "sleeping", "paused", "fault"].map((s) => `status=${s}`).join("&")}&node=${encodeURIComponent(node)}`;
}

type Command = "cordon" | "uncordon" | "freeze" | "unfreeze" | "drain" | "balance";

export function NodesPage(): JSX.Element {
  void slow.value;
  const [planning, setPlanning] = useState(false);
  const nodes = [...store.nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const weights = weightsByNode();
  const most = Math.max(1, ...nodes.map((n) => weights.get(n.name) ?? 0));
  return (
    <div class="page">
      <PageHead title="Nodes" count={number(nodes.length)}>
        <button type="button" class="button" aria-expanded={planning} onClick={() => setPlanning(!planning)}>What would move?</button>
      </PageHead>
      {planning && <Planner nodes={nodes} />}
      {nodes.length === 0 && (
        <Empty art="▢" title={store.listed ? "No node is there, so nothing runs." : "Reading the nodes…"}>
          <p>Start one:</p>
          <code>windlass node --name n1 --exec-allow '*'</code>
        </Empty>
      )}
      <ul class="nodes" data-list tabIndex={nodes.length ? 0 : undefined} aria-label="Nodes" onKeyDown={walk}>
        {nodes.map((n) => <NodeCard key={n.name} node={n} weight={weights.get(n.name) ?? 0} load={loadOf(n, weights, most)} />)}
      </ul>
    </div>
  );
}

/** Moves the focus between the cards with j, k and the arrows. */
export function walk(e: KeyboardEvent): void {
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
  if (!step || !(e.currentTarget instanceof HTMLElement) || typing(e) || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.target instanceof Element && e.target.closest("dialog")) return;
  const cards = [...e.currentTarget.querySelectorAll<HTMLElement>("[data-card]")];
  const at = cards.findIndex((c) => c.contains(document.activeElement));
  const next = cards[at < 0 ? 0 : Math.min(cards.length - 1, Math.max(0, at + step))];
  next?.focus();
  e.preventDefault();
}

function NodeCard({ node: n, weight, load }: { node: FleetNode; weight: number; load: number }): JSX.Element {
  const [asked, setAsked] = useState<Command>();
  const why = closed(n);
  const session = health.value?.sessions.find((s) => s.node === n.name);
  const limits = new Map(Object.entries(n.limits ?? {})); // an object has more names than were put into it
  return (
    <li class="card node" tabIndex={-1} data-card data-node={n.name}>
      <header>
        <h2>{n.name}</h2>
        {why ? <span class="badge s-paused"><StatusIcon status="paused" />{why}</span> : <span class="badge s-running"><StatusIcon status="running" />takes tasks</span>}
        {n.zone && <span class="tag">{n.zone}</span>}
      </header>
      {n.problem && <p class="note bad">{n.problem}</p>}
      {n.silent_since && <p class="note bad">It last renewed its session <Ago at={n.silent_since} after=" ago" />. What it holds may not run.</p>}
      {n.away_until && <p class="note">Node {n.name} is away: {whenBack(n.away_until, n.tasks, serverClock.value)}. Cordon it to give that to the others at once.</p>}
      {n.cordon && <p class="note">Cordoned <Ago at={n.cordon.at} />{n.cordon.by ? ` by ${n.cordon.by}` : ""}{n.cordon.reason ? `: ${n.cordon.reason}` : ""}</p>}
      <div class="loadline">
        <Bar kind={why ? "closed" : load >= 1 && n.capacity ? "full" : ""} percent={load * 100} />
        {n.away_until ? <span class="num">{count(n.tasks, "task")} kept</span> : (
          <a class="num" href={heldHref(n.name)}>
            {count(n.tasks, "task")}{weight !== n.tasks ? `, weight ${number(weight)}` : ""}{n.capacity ? ` of ${number(n.capacity)}` : ""}
          </a>
        )}
      </div>
      <dl class="facts">
        <div><dt>{n.away_until ? "Started" : "Up"}</dt><dd><Ago at={n.started_at} /></dd></div>
        <div><dt>Host</dt><dd>{n.host || "–"}</dd></div>
        <div><dt>Version</dt><dd>{n.version || "–"}</dd></div>
        <div><dt>Session</dt><dd>{n.session_ttl}{session ? `, ${seconds(session.margin_seconds)} left` : ""}</dd></div>
        <div><dt>Types</dt><dd>{[...n.types, ...(n.pulls ?? []).map((t) => `${t} (pulls)`)].map((t) => <span key={t} class="tag">{t}{limits.has(t) ? ` ≤ ${limits.get(t)}` : ""}</span>)}</dd></div>
        {n.weight ? <div><dt>Share</dt><dd>{n.weight}</dd></div> : null}
        {n.load ? <div><dt>Load</dt><dd>{n.load} %</dd></div> : null}
        {Object.keys(n.labels).length > 0 && <div><dt>Labels</dt><dd>{Object.entries(n.labels).map(([k, v]) => <span key={k} class="tag">{k}={v}</span>)}</dd></div>}
      </dl>
      <div class="commands">
        {n.cordon ? <Action onClick={() => setAsked("uncordon")}>Uncordon</Action> : <Action onClick={() => setAsked("cordon")}>Cordon</Action>}
        {!n.away_until && (
          <>
            {n.frozen ? <Action onClick={() => setAsked("unfreeze")}>Unfreeze</Action> : <Action onClick={() => setAsked("freeze")}>Freeze</Action>}
            <Action blocked={n.draining ? "It is being drained." : ""} kind="danger" onClick={() => setAsked("drain")}>Drain</Action>
            <Action onClick={() => setAsked("balance")}>Balance</Action>
          </>
        )}
      </div>
      {asked && <CommandDialog node={n} command={asked} onClose={() => setAsked(undefined)} />}
    </li>
  );
}

const effects: Record<Command, string> = {
  cordon: "It keeps what it has, and gets nothing more until it is uncordoned, also after a restart.",
  uncordon: "It gets tasks again, and ends draining.",
  freeze: "It keeps what it has, and claims nothing more until it is unfrozen or starts again.",
  unfreeze: "It claims tasks again.",
  drain: "It gives its tasks to the other nodes, and gets nothing more until it is uncordoned, also after a restart.",
  balance: "It looks at once whether others should have some of its tasks, and gives those back.",
};

function CommandDialog({ node: n, command, onClose }: { node: FleetNode; command: Command; onClose: () => void }): JSX.Element {
  const [within, setWithin] = useState("");
  const [reason, setReason] = useState("");
  const verb = command[0]?.toUpperCase() + command.slice(1);
  const act = (): void => {
    onClose();
    const body = { command, ...(command === "drain" && within ? { within } : {}), ...(command === "cordon" && reason ? { reason } : {}) };
    const done = command === "cordon" || command === "uncordon" ? `${n.name} is ${command}ed.` : `${n.name} was told to ${command}.`;
    void attempt(done, () => send("POST", `v1/nodes/${encodeURIComponent(n.name)}/commands`, body));
  };
  return (
    <Dialog title={`${verb} ${n.name}?`} onClose={onClose}>
      <p>{n.away_until && command === "cordon" ? "What is kept for it goes to the other nodes, and it gets nothing until it is uncordoned." : effects[command]}</p>
      {command === "cordon" && (
        <Field label="Reason" for="reason" hint="For whoever looks at the nodes">
          <input id="reason" value={reason} maxLength={1024} aria-describedby="reason-hint" onInput={(e) => setReason(e.currentTarget.value)} />
        </Field>
      )}
      {command === "drain" && (
        <>
          <DrainNote node={n.name} />
          <Field label="Within" for="within" hint="Such as 10m; empty for 200 tasks a second">
            <input id="within" value={within} aria-describedby="within-hint" onInput={(e) => setWithin(e.currentTarget.value)} />
          </Field>
        </>
      )}
      <footer>
        <button type="button" class="button" onClick={onClose}>Cancel</button>
        <Action kind={command === "drain" ? "danger solid" : "primary"} onClick={act}>{verb}</Action>
      </footer>
    </Dialog>
  );
}

/** What becomes of the tasks of a node that is drained. */
function DrainNote({ node }: { node: string }): JSX.Element {
  const [plan, setPlan] = useState<Plan>();
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const left = new AbortController();
    const asked = get<Plan>(`v1/plan?leave=${encodeURIComponent(node)}`, left.signal);
    asked.then(setPlan, (cause: unknown) => left.signal.aborted || setError(new Error(explain(cause))));
    return () => left.abort();
  }, [node]);
  if (error) return <ErrorNote error={error} />;
  if (!plan) return <p class="note" role="status">Asking where its tasks would go.</p>;
  const { moves, nowhere } = drainOf(plan, node);
  return (
    <div role="status">
      <p class="note">{moves}</p>
      {nowhere && <p class="note bad">{nowhere}</p>}
    </div>
  );
}

/** Asks what would move if nodes joined, left or changed. */
function Planner({ nodes }: { nodes: FleetNode[] }): JSX.Element {
  const [join, setJoin] = useState("");
  const [leave, setLeave] = useState("");
  const [change, setChange] = useState("");
  const [weight, setWeight] = useState("2");
  const [plan, setPlan] = useState<Plan>();
  const [error, setError] = useState<unknown>();
  const ask = async (): Promise<void> => {
    const q = new URLSearchParams();
    if (join) q.append("join", join);
    if (leave) q.append("leave", leave);
    if (change) q.append("set", `${change}:weight=${weight}`);
    try {
      setPlan(await get<Plan>(`v1/plan?${q.toString()}`));
      setError(undefined);
    } catch (cause) {
      setError(new Error(explain(cause)));
    }
  };
  const options = nodes.map((n) => <option key={n.name} value={n.name}>{n.name}</option>);
  return (
    <Card title="What would move?" class="planner">
      <form onSubmit={(e) => { e.preventDefault(); void ask(); }}>
        <Field label="Joins" for="plan-join" hint="NAME, or NAME:weight=2,zone=east"><input id="plan-join" value={join} aria-describedby="plan-join-hint" onInput={(e) => setJoin(e.currentTarget.value)} /></Field>
        <Field label="Leaves" for="plan-leave"><select id="plan-leave" value={leave} onChange={(e) => setLeave(e.currentTarget.value)}><option value="">nobody</option>{options}</select></Field>
        <Field label="Changes its weight" for="plan-set"><select id="plan-set" value={change} onChange={(e) => setChange(e.currentTarget.value)}><option value="">nobody</option>{options}</select></Field>
        <Field label="to" for="plan-weight"><input id="plan-weight" type="number" min="1" value={weight} onInput={(e) => setWeight(e.currentTarget.value)} /></Field>
        <button type="submit" class="button primary">Show</button>
      </form>
      <ErrorNote error={error} />
      {plan && <PlanTable plan={plan} />}
      <p class="muted">Nothing is changed by asking.</p>
    </Card>
  );
}

function PlanTable({ plan }: { plan: Plan }): JSX.Element {
  return (
    <div class="plan" role="status">
      <p><b>{count(plan.moved, "task")}</b> would move{plan.waiting ? `, and ${count(plan.waiting, "task")} would be taken by nobody` : ""}. Imbalance {plan.imbalance_before.toFixed(2)} → {plan.imbalance_after.toFixed(2)}.</p>
      <table class="plain">
        <thead><tr><th>Node</th><th>Change</th><th class="num">Before</th><th class="num">After</th></tr></thead>
        <tbody>{plan.nodes.map((n) => <tr key={n.name}><td>{n.name}</td><td>{n.change}</td><td class="num">{number(n.before)}</td><td class="num">{number(n.after)}</td></tr>)}</tbody>
      </table>
      {plan.moves.length > 0 && (
        <table class="plain">
          <thead><tr><th>From</th><th>To</th><th class="num">Tasks</th></tr></thead>
          <tbody>{plan.moves.map((m) => <tr key={`${m.from} ${m.to}`}><td>{m.from || "(nobody)"}</td><td>{m.to || "(nobody)"}</td><td class="num">{number(m.tasks)}</td></tr>)}</tbody>
        </table>
      )}
    </div>
  );
}
