import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, Problem } from "../data/api";
import { count } from "../data/attention";
import { kindOf } from "../data/failures";
import { noFilter, queryOf } from "../data/filters";
import { fold } from "../data/fold";
import { others } from "../data/remark";
import { reportOf } from "../data/report";
import { restartsText } from "../data/restarts";
import { spansOf } from "../data/spans";
import { stepsOf } from "../data/steps";
import { type Explanation, type History, type HistoryEntry, liveStatuses, type Status, type Task, type TaskDetail } from "../data/types";
import { duration, json, time } from "../format";
import { jobOf } from "../graph/forest";
import { taskHref } from "../router";
import { connection, serverClock, store, tick } from "../state";
import { shapes, StatusBadge } from "../ui/icons";
import { Action, Ago, Card, Empty, ErrorNote, PageHead } from "../ui/parts";
import { applies, atOnce, CommandDialog, command, ends, type Message, messages } from "./bulk";
import { EditDialog } from "./edit";
import { OutputCard } from "./output";

interface Known {
  detail: TaskDetail;
  history: History;
  explanation: Explanation | undefined;
}

/** againAfter is when the task is asked for once more after a change, in milliseconds: its history is written a little later. */
const againAfter = 2000;
/** pauseBefore is how long changes are collected before the task is asked for again, in milliseconds. */
const pauseBefore = 250;

export function TaskPage({ id }: { id: string }): JSX.Element {
  void tick.value;
  const live = store.tasks.get(id);
  const [known, setKnown] = useState<Known>();
  const [error, setError] = useState<unknown>();
  const [again, setAgain] = useState(0);
  const reachable = connection.value.state === "live"; // what could not be read is read when the server is there again
  const silent = live && liveStatuses.includes(live.status) ? store.nodes.get(live.node)?.silent_since : undefined;
  const version = live ? JSON.stringify(live) + (silent ?? "") : "";
  useEffect(() => {
    const stop = new AbortController();
    const ask = (): void => {
      load(id, stop.signal).then(
        (k) => {
          setKnown(k);
          setError(undefined);
        },
        (cause: unknown) => {
          if (!stop.signal.aborted) setError(cause);
        },
      );
    };
    const timers = [setTimeout(ask, known ? pauseBefore : 0), setTimeout(ask, againAfter)];
    return () => {
      timers.forEach(clearTimeout);
      stop.abort();
    };
  }, [id, version, again, reachable]);
  const missing = error instanceof Problem && error.status === 404;
  if (missing && !live) {
    return (
      <div class="page">
        <PageHead title={id} />
        <Empty art="∅" title="There is no task of this ID."><a href="#/tasks">All tasks</a></Empty>
      </div>
    );
  }
  const status = live?.status ?? known?.detail.status;
  const job = live && jobOf(live);
  return (
    <div class="page">
      <p class="crumbs">{job ? <a href="#/trees">Trees</a> : <a href="#/tasks">Tasks</a>}{job?.parent && <> / <a href={taskHref(job.parent)}>{job.parent.replaceAll("|", " / ")}</a></>}</p>
      <PageHead title={<span class="id">{id}</span>}>
        {status && <StatusBadge status={status} />}
        {job && <a class="button" href={`#/queue?parent=${encodeURIComponent(id)}`}>Queue below</a>}
      </PageHead>
      {silent && <p class="note bad">{`${live?.node} last renewed its session `}<Ago at={silent} after=" ago" />, so it is dead or cut off, and the task may not run.</p>}
      <Commands id={id} status={status} detail={known?.detail} refresh={() => setAgain((n) => n + 1)} />
      {(live ?? known) && <Life task={live ?? known?.detail} waits={known?.explanation?.why ?? ""} />}
      {!missing && <ErrorNote error={error} />}
      {known ? <Detail known={known} refresh={() => setAgain((n) => n + 1)} /> : !error && <p class="muted">Reading…</p>}
    </div>
  );
}

async function load(id: string, signal: AbortSignal): Promise<Known> {
  const path = `v1/tasks/${encodeURIComponent(id)}`;
  const [detail, history] = await Promise.all([
    get<TaskDetail>(path, signal),
    get<History>(`${path}/history`, signal),
  ]);
  const ended = !liveStatuses.includes(detail.status);
  return { detail, history, explanation: ended ? undefined : await get<Explanation>(`${path}/explain`, signal) };
}

function Commands({ id, status, detail, refresh }: { id: string; status: Status | undefined; detail: TaskDetail | undefined; refresh: () => void }): JSX.Element {
  const [asked, setAsked] = useState<Message | "edit">();
  const [sending, setSending] = useState(false);
  const act = async (m: Message): Promise<void> => {
    setSending(true);
    await command(id, m);
    setSending(false);
    refresh();
  };
  const close = (): void => {
    setAsked(undefined);
    refresh();
  };
  return (
    <div class="commands" role="group" aria-label="What the task can be told">
      {(Object.keys(messages) as Message[]).filter((m) => applies(m, status) && (m !== "continue" || detail?.progress)).map((m) => (
        <Action key={m} kind={ends(m) ? "danger" : m === "retry" ? "primary" : ""} blocked={sending ? "It is being sent." : ""} onClick={() => (atOnce(m) ? void act(m) : setAsked(m))}>
          {messages[m][0]}{atOnce(m) ? "" : "…"}
        </Action>
      ))}
      {detail && applies("kill", status) && <Action onClick={() => setAsked("edit")}>Edit…</Action>}
      <span class="grow" />
      <button type="button" class="button quiet" onClick={refresh}>Refresh</button>
      {asked === "edit" && detail && <EditDialog detail={detail} onClose={close} />}
      {asked && asked !== "edit" && <CommandDialog ids={[id]} message={asked} onClose={close} />}
    </div>
  );
}

function Detail({ known: { detail: d, history, explanation }, refresh }: { known: Known; refresh: () => void }): JSX.Element {
  return (
    <div class="columns">
      <div>
        {explanation && <Why e={explanation} status={d.status} />}
        <Card title="History" aside={<span class="muted">{count(history.claims, "claim")}, {count(history.interruptions, "interruption")}</span>}>
          <Timeline history={history} />
        </Card>
        {d.errors.length > 0 && (
          <Card title={`Errors (${d.errors.length})`}>
            <ol class="errors">
              {fold([...d.errors].reverse(), (e) => kindOf(e.error)).map((f) => f.shown.map((e, i) => (
                <li key={e.timestamp}>
                  <span><Ago at={e.timestamp} after=" ago" />{i === f.shown.length - 1 && f.times > 0 && <>, and {f.times} times more since <Ago at={f.more.at(-1)?.timestamp} after=" ago" /></>}</span>
                  <pre tabIndex={0}>{e.error}</pre>
                </li>
              )))}
            </ol>
          </Card>
        )}
        <OutputCard detail={d} refresh={refresh} />
        {d.result !== null && <Card title="Result"><pre tabIndex={0}>{json(d.result)}</pre></Card>}
        {d.progress !== null && reportOf(d) === undefined && <Card title="Progress"><pre tabIndex={0}>{json(d.progress)}</pre></Card>}
      </div>
      <div>
        <Card title="Task"><Facts d={d} /></Card>
        {d.props !== null && d.props !== undefined && <Card title="Properties"><pre tabIndex={0}>{json(d.props)}</pre></Card>}
      </div>
    </div>
  );
}

/** The life of the task in a line, from its submission to what comes next. */
function Life({ task, waits }: { task: Task | undefined; waits: string }): JSX.Element | null {
  if (!task) return null;
  return (
    <ol class="life" aria-label="The life of the task">
      {stepsOf(task, waits, serverClock.value).map((s) => (
        <li key={s.name} class={`${s.when} ${s.when === "now" ? `s-${task.status}` : ""}`} aria-current={s.when === "now" ? "step" : undefined}>
          <b>{s.name}</b>
          {s.at && <Ago at={s.at} after=" ago" />}
          {s.note && <span title={s.note}>{s.note}</span>}
        </li>
      ))}
    </ol>
  );
}

/** How many of the tasks that one waits for are named. */
const namedMax = 20;

/** Links to tasks, the first ones of very many. "|*" after a job's ID stands for all below it. */
function Links({ ids, count = ids.length }: { ids: readonly string[]; count?: number }): JSX.Element {
  return (
    <>
      {ids.slice(0, namedMax).map((id) => <a key={id} class="tag" href={taskHref(id.replace(/\|\*$/, ""))}>{id}</a>)}
      <span class="muted">{others(ids, namedMax, count)}</span>
    </>
  );
}

function Why({ e, status }: { e: Explanation; status: Status }): JSX.Element {
  return (
    <Card title={status === "running" ? "Why it runs there" : "Why it does not run"}>
      <p class="why">{e.why}</p>
      {e.decision && !e.why.includes(e.decision) && <p class="muted">{e.decision}</p>}
      {e.last_error && <p class="note bad">{e.last_error}</p>}
      {(e.blocked_by ?? []).length > 0 && <p>Waits for <Links ids={e.blocked_by ?? []} count={e.blocked_by_count} /></p>}
      {(e.failed_needs ?? []).length > 0 && <p>Of these failed <Links ids={e.failed_needs ?? []} count={e.failed_needs_count} /></p>}
      {(e.nodes ?? []).length > 0 && (
        <table class="plain">
          <thead><tr><th>Node</th><th>Would take it</th><th>Why</th></tr></thead>
          <tbody>{e.nodes?.map((n) => <tr key={n.node}><td>{n.node}</td><td>{n.takes ? "yes" : n.node === e.node ? "has it" : "no"}</td><td>{n.why}</td></tr>)}</tbody>
        </table>
      )}
    </Card>
  );
}

/** The bar of where the task was, and what happened to it, the latest first. */
function Timeline({ history }: { history: History }): JSX.Element {
  const spans = spansOf(history.entries, serverClock.value);
  const first = spans[0]?.from ?? 0;
  const whole = Math.max(1, (spans.at(-1)?.to ?? 0) - first);
  return (
    <>
      {spans.length > 0 && (
        <svg class="spans" viewBox="0 0 1000 22" preserveAspectRatio="none" aria-hidden="true">
          {spans.map((s) => (
            <rect key={s.from} class={`s-${s.status}`} x={((s.from - first) / whole) * 1000} width={Math.max(3, ((s.to - s.from) / whole) * 1000 - 1)} y="0" height="22" rx="2" fill="currentColor" opacity={s.node && !s.unseen ? 1 : 0.35}>
              <title>{`${s.status}${s.node ? ` on ${s.node}` : ""} for ${s.unseen ? "an unknown part of " : ""}${duration(s.to - s.from)}`}</title>
            </rect>
          ))}
        </svg>
      )}
      {history.entries.length === 0 && <p class="muted">Nothing has happened to it yet.</p>}
      <ol class="timeline">
        {fold([...history.entries].reverse(), (e) => `${e.event} ${e.node} ${kindOf(e.detail ?? "")}`).flatMap((f) => [
          ...f.shown.map((e, i) => <Entry key={`${e.at} ${i}`} e={e} />),
          f.times > 0 && (
            <li class="folded" key={`${f.shown[0]?.at ?? ""} more`}>
              <details>
                <summary>the same {f.times} times more, since {time(f.more.at(-1)?.at)}</summary>
                <ol class="timeline">{f.more.map((e, i) => <Entry key={`${e.at} ${i}`} e={e} />)}</ol>
              </details>
            </li>
          ),
        ])}
      </ol>
    </>
  );
}

function Entry({ e }: { e: HistoryEntry }): JSX.Element {
  return (
    <li>
      <span class={`dot s-${e.event === "claimed" ? "running" : e.event in shapes ? e.event : "pending"}`} aria-hidden="true" />
      <span class="event">{e.event}{e.interruption ? " (interrupted)" : ""}</span>
      <span class="where">{e.node}{e.token ? <span class="muted"> token {e.token}</span> : ""}</span>
      <time class="muted" dateTime={e.at}>{time(e.at)}</time>
      {e.detail && <span class="detail">{e.detail}</span>}
    </li>
  );
}

function Facts({ d }: { d: TaskDetail }): JSX.Element {
  const pairs = (p: Record<string, string> | undefined): string => Object.entries(p ?? {}).map(([k, v]) => `${k}=${v}`).join(", ");
  const s = d.spec;
  const facts: [string, JSX.Element | string | undefined][] = [
    ["Type", d.type || "(none)"], ["Node", d.node], ["Token", d.token ? String(d.token) : ""],
    ["Submitted", time(d.submitted_at)], ["Submitted or changed by", s?.by], ["Claimed", d.claimed_at ? time(d.claimed_at) : ""], ["Finished", d.finished_at ? time(d.finished_at) : ""],
    ["Told to", d.command ? `${d.command.message}${d.command.until ? ` until ${time(d.command.until)}` : ""}, not done yet` : ""], ["Wakes up", d.until ? time(d.until) : ""], ["Not before", d.not_before ? time(d.not_before) : ""],
    ["Priority", String(d.priority)], ["Weight", d.weight ? String(d.weight) : ""], ["Failures", d.failures_max ? `${d.failures ?? 0}; ${d.failures_max} end it` : d.failures ? String(d.failures) : ""],
    ["Restarts", d.restarts && restartsText(d.restarts, Date.now())],
    ["Needs", s?.needs?.length ? <Links ids={s.needs} /> : ""],
    ["Requires", pairs(s?.require)], ["Prefers", pairs(s?.prefer)], ["Pinned to", s?.node], ["Group", s?.group],
    ["Tags", Object.keys(d.tags ?? {}).length ? <>{Object.entries(d.tags ?? {}).map(([k, v]) => <a key={k} class="tag" title="All tasks with this tag" href={`#/tasks?${queryOf({ ...noFilter, tags: [`${k}=${v}`] })}`}>{k}={v}</a>)}</> : ""],
    ["Timeout", s?.timeout], ["Retries", s?.retry ? Object.entries(s.retry).map(([name, v]) => `${name} ${v}`).join(", ") : ""], ["On failure", s?.on_failure],
  ];
  return <dl class="facts">{facts.filter(([, v]) => v).map(([k, v]) => <div key={k}><dt>{k}</dt><dd>{v}</dd></div>)}</dl>;
}
