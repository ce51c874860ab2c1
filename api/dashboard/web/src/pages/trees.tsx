import { signal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { JSX } from "preact";
import { get } from "../data/api";
import { type Job, statuses } from "../data/types";
import { number } from "../format";
import { drawingOf, isCompleted, jobOf, rowsOf, type Row } from "../graph/forest";
import { go, route, setQuery, taskHref } from "../router";
import { connection, slow, store } from "../state";
import { GraphView } from "../graph/view";
import { Grid } from "../ui/grid";
import { StatusBadge, StatusIcon } from "../ui/icons";
import { Ago, Bar, Empty, PageHead } from "../ui/parts";
import { narrow } from "../ui/theme";

/** graphMax is up to how many jobs are drawn; more are listed. */
export const graphMax = 500;

/** knownNeeds are those of the last listing of jobs. */
const knownNeeds = signal<ReadonlyMap<string, readonly string[]>>(new Map());

/** What the jobs need beside their parents, which no event tells: asked for when the page is opened, and when jobs come. */
function useNeeds(jobs: Job[]): ReadonlyMap<string, readonly string[]> {
  const needs = knownNeeds.value;
  const missing = jobs.filter((j) => !needs.has(j.id)).length;
  const ready = store.listed && jobs.length > 0 && missing > 0;
  useEffect(() => {
    if (!ready) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<Job[]>("v1/tree/jobs", stop.signal).then(
        (listed) => {
          knownNeeds.value = new Map([...jobs.map((j): [string, string[]] => [j.id, []]), ...listed.map((j): [string, string[]] => [j.id, j.needs])]);
        },
        () => {}, // lines of needs are missing until the next try; the connection's state is shown anyway
      );
    }, 500);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [ready, jobs.length, connection.value.state]);
  return needs;
}

export function TreesPage(): JSX.Element {
  const jobs = useMemo(() => [...store.tasks.values()].map(jobOf).filter((j): j is Job => j !== undefined), [slow.value]);
  const needs = useNeeds(jobs);
  const query = route.value.query;
  const fold = query.get("fold") !== "no";
  const drawing = useMemo(() => drawingOf(jobs, needs, fold), [jobs, needs, fold]);
  const tooMany = drawing.vertices.length > graphMax;
  const list = query.get("view") === "list" || tooMany;
  const set = (name: string, value: string): void => {
    const q = new URLSearchParams(query);
    if (value) q.set(name, value);
    else q.delete(name);
    setQuery(q.toString());
  };
  const done = jobs.filter((j) => isCompleted(j.status)).length;
  return (
    <div class="page fill">
      <PageHead title="Trees" count={number(jobs.length)}>
        <a class="button primary" href="#/queue">Queue a job</a>
      </PageHead>
      {jobs.length === 0 ? (
        <Empty art="◇" title={store.listed ? "There are no jobs." : "Reading the jobs…"}>
          <p>A job waits until those above it are done. <a href="#/queue">Queue one here</a>, or in a terminal:</p>
          <code>windlass tree queue site --type crawl</code>
        </Empty>
      ) : (
        <>
          <div class="filters">
            <div class="fields">
              <div class="chips" role="group" aria-label="View">
                <button type="button" class="chip" aria-pressed={!list} aria-disabled={tooMany} title={tooMany ? `More than ${graphMax} jobs are listed, not drawn.` : undefined} onClick={() => !tooMany && set("view", "")}>Graph</button>
                <button type="button" class="chip" aria-pressed={list} onClick={() => set("view", "list")}>List</button>
              </div>
              {(!list || tooMany) && <label class="check"><input type="checkbox" checked={fold} onChange={() => set("fold", fold ? "no" : "")} /> Fold what is completed</label>}
              <span class="grow" />
              <span class="progress"><Bar kind="done" percent={(100 * done) / jobs.length} /> {number(done)} of {number(jobs.length)} done</span>
            </div>
            <ul class="legend">
              {statuses.map((s) => [s, jobs.filter((j) => j.status === s).length] as const).filter(([, n]) => n > 0).map(([s, n]) => <li key={s} class={`s-${s}`}><StatusIcon status={s} /> {s} <b>{number(n)}</b></li>)}
            </ul>
          </div>
          {tooMany && <p class="note">There are more than {graphMax} jobs to draw, so they are listed.</p>}
          {list ? <JobList jobs={jobs} /> : <GraphView drawing={drawing} fold={fold} onOpen={(id) => go(taskHref(id))} onUnfold={() => set("fold", "no")} />}
        </>
      )}
    </div>
  );
}

function JobList({ jobs }: { jobs: Job[] }): JSX.Element {
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const rows = useMemo(() => rowsOf(jobs, closed), [jobs, closed]);
  const byId = useMemo(() => new Map(rows.map((r) => [r.job.id, r])), [rows]);
  const flip = (id: string, open: boolean): void => {
    const next = new Set(closed);
    if (open) next.delete(id);
    else next.add(id);
    setClosed(next);
  };
  return (
    <Grid
      label="Jobs"
      role="treegrid"
      ids={rows.map((r) => r.job.id)}
      rowHeight={narrow.value ? 44 : 34}
      head={<><div role="columnheader" class="c-job">Job</div><div role="columnheader" class="c-status">Status</div><div role="columnheader" class="c-node">Node</div><div role="columnheader" class="c-part">Below it</div><div role="columnheader" class="c-changed">Queued</div></>}
      onOpen={(id) => go(taskHref(id))}
      onKey={(e, id) => {
        if (!id || (e.key !== "ArrowLeft" && e.key !== "ArrowRight")) return false;
        flip(id, e.key === "ArrowRight");
        return true;
      }}
      row={(id, index, place) => {
        const r = byId.get(id);
        return r ? <JobRow key={place.slot} r={r} index={index} place={place} open={!closed.has(id)} flip={flip} /> : <div key={place.slot} />;
      }}
    />
  );
}

function JobRow({ r, index, place, open, flip }: { r: Row; index: number; place: { active: boolean; id: string; style: string; onPointerDown: () => void }; open: boolean; flip: (id: string, open: boolean) => void }): JSX.Element {
  const { job } = r;
  return (
    <div
      role="row" id={place.id} aria-rowindex={index + 2} aria-level={r.depth} aria-posinset={r.position} aria-setsize={r.siblings}
      aria-expanded={r.children ? open : undefined} class={`row jobrow ${place.active ? "active" : ""}`} style={place.style} onPointerDown={place.onPointerDown} data-id={job.id}
    >
      <div role="gridcell" class="c-job" style={{ paddingLeft: `${(r.depth - 1) * 18}px` }}>
        {r.children > 0
          ? <button type="button" class="twist" tabIndex={-1} aria-label={open ? `Close ${job.name}` : `Open ${job.name}`} onClick={() => flip(job.id, !open)}>{open ? "▾" : "▸"}</button>
          : <span class="twist" />}
        <a href={taskHref(job.id)} tabIndex={-1} title={job.path}>{job.name}</a> <span class="muted">{job.type}</span>
      </div>
      <div role="gridcell" class="c-status"><StatusBadge status={job.status} /></div>
      <div role="gridcell" class="c-node">{job.node || <span class="muted">–</span>}</div>
      <div role="gridcell" class="c-part num">{r.total ? `${number(r.done)} / ${number(r.total)}` : <span class="muted">–</span>}</div>
      <div role="gridcell" class="c-changed num"><Ago at={job.submitted_at} /></div>
    </div>
  );
}
