import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "../data/api";
import { closed, count, nodeHref } from "../data/attention";
import type { FleetNode, Plan } from "../data/types";
import { number, time } from "../format";
import { go } from "../router";
import { slow, store } from "../state";
import { StatusIcon } from "../ui/icons";
import { typing } from "../ui/keys";
import { Ago, Bar, Card, Empty, ErrorNote, Field, PageHead } from "../ui/parts";
import { explain } from "../ui/toasts";
import { useDeaths } from "./deaths";

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

export function NodesPage(): JSX.Element {
  void slow.value;
  const [planning, setPlanning] = useState(false);
  const deaths = useDeaths();
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
          {store.listed && <><p>Start one:</p><code>windlass node --name n1 --exec-allow '*'</code></>}
        </Empty>
      )}
      {nodes.length > 0 && (
        <section class="card">
          <table class="plain fleet">
            <thead><tr><th>Node</th><th>State</th><th class="extra">Zone</th><th>Tasks</th><th class="num" title="Deaths in the last hour">Died</th><th class="extra num">Up</th><th class="extra">Version</th><th class="extra">Host</th></tr></thead>
            <tbody data-list tabIndex={0} aria-label="Nodes" onKeyDown={walk}>
              {nodes.map((n) => <Row key={n.name} node={n} load={loadOf(n, weights, most)} died={deaths?.filter((d) => d.node === n.name).length} />)}
            </tbody>
          </table>
        </section>
      )}
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

function Row({ node: n, load, died }: { node: FleetNode; load: number; died: number | undefined }): JSX.Element {
  const why = closed(n);
  return (
    <tr tabIndex={-1} data-card data-node={n.name} onKeyDown={(e) => e.key === "Enter" && e.target === e.currentTarget && go(nodeHref(n.name))}>
      <td><a class="id" href={nodeHref(n.name)}>{n.name}</a></td>
      <td><NodeBadge node={n} />{n.probation && why !== "away" && <span class="muted"> until {time(n.probation)}</span>}</td>
      <td class="extra">{n.zone}</td>
      <td class="loadline">
        <Bar kind={why ? "closed" : load >= 1 && n.capacity ? "full" : ""} percent={load * 100} />
        {n.away_until ? <span class="num">{count(n.tasks, "task")} kept</span> : <a class="num" href={heldHref(n.name)}>{count(n.tasks, "task")}{n.capacity ? ` of ${number(n.capacity)}` : ""}</a>}
      </td>
      <td class="num">{died ? <span class="s-fault">{died}</span> : died}</td>
      <td class="extra num"><Ago at={n.started_at} /></td>
      <td class="extra">{n.version}</td>
      <td class="extra">{n.host}</td>
    </tr>
  );
}

/** Whether a node takes tasks, and why not. */
export function NodeBadge({ node }: { node: FleetNode }): JSX.Element {
  const why = closed(node);
  return why ? <span class="badge s-paused"><StatusIcon status="paused" />{why}</span> : <span class="badge s-running"><StatusIcon status="running" />takes tasks</span>;
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
