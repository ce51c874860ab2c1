import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, send } from "../data/api";
import { closed, count, whenBack } from "../data/attention";
import { drainOf } from "../data/drain";
import type { FleetNode, Plan } from "../data/types";
import { number, seconds, time } from "../format";
import { health, serverClock, slow, store } from "../state";
import { Action, Ago, Bar, Card, Dialog, Empty, ErrorNote, Field, PageHead } from "../ui/parts";
import { attempt, explain } from "../ui/toasts";
import { Deaths, useDeaths } from "./deaths";
import { heldHref, loadOf, NodeBadge, weightsByNode } from "./nodes";

type Command = "cordon" | "uncordon" | "freeze" | "unfreeze" | "drain" | "balance";

/** One node: whether it takes tasks, what it was told, what it is, and how often it has died. */
export function NodePage({ name }: { name: string }): JSX.Element {
  void slow.value;
  const died = useDeaths()?.filter((d) => d.node === name);
  const n = store.nodes.get(name);
  return (
    <div class="page">
      <p class="crumbs"><a href="#/nodes">Nodes</a></p>
      <PageHead title={<span class="id">{name}</span>}>{n && <NodeBadge node={n} />}</PageHead>
      <div class="columns">
        <div>
          {n ? <Now node={n} /> : <Empty art="▢" title={store.listed ? "No such node is there." : "Reading the nodes…"}>{store.listed && <a href="#/nodes">All nodes</a>}</Empty>}
          {died && <Deaths deaths={died} />}
        </div>
        <div>{n && <Card title="Node"><Facts node={n} /></Card>}</div>
      </div>
    </div>
  );
}

function Now({ node: n }: { node: FleetNode }): JSX.Element {
  const [asked, setAsked] = useState<Command>();
  const why = closed(n);
  const weights = weightsByNode();
  const load = loadOf(n, weights, Math.max(1, ...weights.values()));
  const weight = weights.get(n.name) ?? 0;
  return (
    <section class="card node" data-node={n.name}>
      {n.problem && <p class="note bad">{n.problem}</p>}
      {n.silent_since && <p class="note bad">It last renewed its session <Ago at={n.silent_since} after=" ago" />. What it holds may not run.</p>}
      {n.probation && <p class="note">It has died more often than others, and no task explains why. It gets nothing until {time(n.probation)}.</p>}
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
    </section>
  );
}

function Facts({ node: n }: { node: FleetNode }): JSX.Element {
  const session = health.value?.sessions.find((s) => s.node === n.name);
  const limits = new Map(Object.entries(n.limits ?? {})); // an object has more names than were put into it
  return (
    <dl class="facts">
      {n.zone && <div><dt>Zone</dt><dd>{n.zone}</dd></div>}
      <div><dt>{n.away_until ? "Started" : "Up"}</dt><dd><Ago at={n.started_at} /></dd></div>
      <div><dt>Host</dt><dd>{n.host || "–"}</dd></div>
      <div><dt>Version</dt><dd>{n.version || "–"}</dd></div>
      <div><dt>Session</dt><dd>{n.session_ttl}{session ? `, ${seconds(session.margin_seconds)} left` : ""}</dd></div>
      <div><dt>Types</dt><dd>{[...n.types, ...(n.pulls ?? []).map((t) => `${t} (pulls)`)].map((t) => <span key={t} class="tag">{t}{limits.has(t) ? ` ≤ ${limits.get(t)}` : ""}</span>)}</dd></div>
      {n.weight ? <div><dt>Share</dt><dd>{n.weight}</dd></div> : null}
      {n.load ? <div><dt>Load</dt><dd>{n.load} %</dd></div> : null}
      {Object.keys(n.labels).length > 0 && <div><dt>Labels</dt><dd>{Object.entries(n.labels).map(([k, v]) => <span key={k} class="tag">{k}={v}</span>)}</dd></div>}
    </dl>
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
