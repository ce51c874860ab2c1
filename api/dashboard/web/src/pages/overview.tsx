import type { JSX } from "preact";
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { attention, closed } from "../data/attention";
import { rates, type Series } from "../data/series";
import { liveStatuses, type Status, statuses, type TaskType } from "../data/types";
import { duration, number, seconds } from "../format";
import { clock, connection, health, lastDay, lastHour, latency, sampled, serverClock, slow, store } from "../state";
import { Chart } from "../ui/chart";
import { StatusIcon } from "../ui/icons";
import { Bar, Card, Empty, PageHead } from "../ui/parts";
import { heldHref, loadOf, weightsByNode } from "./nodes";
import { Types, useTypes } from "./types";

const areas: Status[] = ["running", "pending", "blocked", "sleeping", "paused", "fault", "failed"];
const findingsMax = 8;

export function OverviewPage(): JSX.Element {
  void slow.value;
  const [types, again] = useTypes();
  const lost = health.value?.broker.ok === false;
  const live = liveStatuses.reduce((sum, s) => sum + store.counts[s], 0);
  return (
    <div class="page">
      <PageHead title="Overview">
        <a class="button primary" href="#/submit">Submit a task</a>
      </PageHead>
      {lost && <p class="note bad" role="status">The broker does not answer. What is shown was so when it last did: nodes that cannot renew their sessions stop what they run.</p>}
      <div class="tiles">
        <Tile name="Live tasks" value={number(live)} href="#/tasks" note={lost ? `${number(store.counts.running)} ran when the broker last answered` : `${number(store.counts.running)} running`} />
        <Tile name="Nodes" value={number(store.nodes.size)} href="#/nodes" note={nodesNote()} />
        <Latency />
        <Margin />
      </div>
      <div class="statusline" role="list" aria-label="Tasks by status">
        {statuses.map((s) => (
          <div role="listitem" key={s}>
            <a href={`#/tasks?status=${s}`} class={`stat s-${s} ${store.counts[s] ? "" : "zero"}`}>
              <StatusIcon status={s} /><b>{number(store.counts[s])}</b><span>{s}</span>
            </a>
          </div>
        ))}
      </div>
      <div class="columns">
        <div>
          <Attention types={types} />
          <Statuses />
          <Claims />
        </div>
        <div>
          <Loads />
          <Types types={types} again={again} />
          <Leaders />
        </div>
      </div>
    </div>
  );
}

function Tile({ name, value, note, href, bad = false }: { name: string; value: string; note: string; href?: string; bad?: boolean }): JSX.Element {
  const inside = <><span class="name">{name}</span><b>{value}</b><span class="muted">{note}</span></>;
  return href ? <a class="tile" href={href}>{inside}</a> : <div class={`tile ${bad ? "bad" : ""}`}>{inside}</div>;
}

function nodesNote(): string {
  const away = [...store.nodes.values()].filter((n) => closed(n)).length;
  if (store.nodes.size === 0) return "none is there";
  return away ? `${number(away)} take no tasks` : "all take tasks";
}

function Latency(): JSX.Element {
  const h = health.value;
  if (!h) return <Tile name="Broker latency" value="–" note="being measured" />;
  if (!h.broker.ok) return <Tile name="Broker latency" value="away" note={h.broker.problem ?? ""} bad />;
  const sorted = [...(latency.values["seconds"] ?? [])].sort((a, b) => a - b);
  const high = sorted[Math.floor((sorted.length - 1) * 0.95)] ?? 0;
  return <Tile name="Broker latency" value={seconds(h.broker.latency_seconds)} note={`95 % within ${seconds(high)}`} bad={h.broker.latency_seconds > 0.5} />;
}

function Margin(): JSX.Element {
  const sessions = health.value?.sessions ?? [];
  if (sessions.length === 0) return <Tile name="Session margin" value="–" note="no node in this server's process" />;
  const least = sessions.reduce((a, b) => (a.margin_seconds < b.margin_seconds ? a : b));
  return <Tile name="Session margin" value={seconds(least.margin_seconds)} note={`of ${seconds(least.full_seconds)}, on ${least.node}`} bad={least.margin_seconds < least.full_seconds / 3} />;
}

function Attention({ types }: { types: TaskType[] }): JSX.Element {
  const found = useMemo(
    () => attention(store.tasks.values(), [...store.nodes.values()], health.value, serverClock.value, types),
    [types, slow.value, health.value, Math.floor(serverClock.value / 5000)],
  );
  return (
    <Card title="Needs attention" aside={found.length > 0 && <span class="pill bad">{found.length}</span>}>
      {found.length === 0 && <p class="calm"><StatusIcon status="completed" /> {store.listed ? "Nothing. Everything that should run does." : "Reading…"}</p>}
      <ul class="findings">
        {found.slice(0, findingsMax).map((f) => (
          <li key={f.title} class={f.level}>
            <a href={f.href}><StatusIcon status={f.level === "bad" ? "fault" : "blocked"} /><b>{f.title}</b> <span class="muted">{f.detail}</span></a>
          </li>
        ))}
        {found.length > findingsMax && <li class="muted">and {found.length - findingsMax} more</li>}
      </ul>
    </Card>
  );
}

/** Whether the charts show the last day instead of the last hour. */
const wholeDay = signal(false);

function shown(): Series {
  return wholeDay.value ? lastDay : lastHour;
}

/** Chooses what the charts show. */
function Span(): JSX.Element {
  void sampled.value;
  const first = shown().times[0];
  return (
    <span class="span">
      <span class="muted">{first === undefined ? "" : `the last ${duration(Math.max(0, clock.value - first * 1000))}`}</span>
      <button type="button" class="chip" aria-pressed={!wholeDay.value} onClick={() => (wholeDay.value = false)}>Hour</button>
      <button type="button" class="chip" aria-pressed={wholeDay.value} onClick={() => (wholeDay.value = true)}>Day</button>
    </span>
  );
}

function Statuses(): JSX.Element {
  const data = useMemo(() => {
    const { times, values } = shown(); // and what is there now
    return [[...times, clock.value / 1000], ...areas.map((s) => [...(values[s] ?? []), store.counts[s]])];
  }, [sampled.value, wholeDay.value]);
  return (
    <Card title="Tasks by status" aside={<Span />}>
      <Chart lines={areas.map((s) => ({ label: s, color: `--s-${s}` }))} data={data} step={shown().step} stacked height={180} least={4} format={(v) => number(v)} />
      <ul class="legend">{areas.map((s) => <li key={s} class={`s-${s}`}><StatusIcon status={s} /> {s} <b>{number(store.counts[s])}</b></li>)}</ul>
    </Card>
  );
}

function Claims(): JSX.Element {
  const data = useMemo(() => {
    const { times, values } = shown();
    return [[...times], rates(times, values["claims"] ?? []), rates(times, values["moves"] ?? [])];
  }, [sampled.value, wholeDay.value]);
  const now = (i: number): string => (data[i]?.at(-1) ?? 0).toFixed(1);
  return (
    <Card title="Claims and moves per second" aside={<span class="muted">{number(store.claims)} claims, {number(store.moves)} moves so far</span>}>
      <Chart lines={[{ label: "claims", color: "--s-running" }, { label: "moves", color: "--s-paused" }]} data={data} step={shown().step} stacked={false} height={120} least={2} format={(v) => number(v)} />
      <ul class="legend"><li class="s-running"><i class="line" /> claims <b>{now(1)}</b></li><li class="s-paused"><i class="line" /> moves to another node <b>{now(2)}</b></li></ul>
    </Card>
  );
}

const loadsMax = 12;

function Loads(): JSX.Element {
  const weights = weightsByNode();
  const nodes = [...store.nodes.values()].sort((a, b) => loadOf(b, weights, 1) - loadOf(a, weights, 1));
  const most = Math.max(1, ...nodes.map((n) => weights.get(n.name) ?? 0));
  return (
    <Card title="What runs where" aside={<a href="#/nodes">All nodes</a>}>
      {nodes.length === 0 && <Empty art="▢" title={connection.value.state === "connecting" ? "Reading…" : "No node is there."}><code>windlass node --name n1 --exec-allow '*'</code></Empty>}
      <ul class="loads">
        {nodes.slice(0, loadsMax).map((n) => (
          <li key={n.name}>
            <a href={heldHref(n.name)}>{n.name}</a>
            <Bar kind={closed(n) ? "closed" : ""} percent={loadOf(n, weights, most) * 100} />
            <span class="num">{number(n.tasks)}{n.capacity ? <span class="muted"> / {number(n.capacity)}</span> : ""}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Leaders(): JSX.Element {
  const elections = [...store.elections.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return (
    <Card title="Who leads" aside={<a href="#/elections">All elections</a>}>
      {elections.length === 0 && <p class="muted">Nobody stands in an election.</p>}
      <dl class="facts">
        {elections.slice(0, loadsMax).map((e) => (
          <div key={e.name}><dt>{e.name}</dt><dd>{e.leader} <span class="muted">+{e.candidates.length - 1} waiting</span></dd></div>
        ))}
      </dl>
    </Card>
  );
}
