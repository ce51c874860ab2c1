import { signal } from "@preact/signals";
import { Component, type JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../data/api";
import { errorCount, type Filter, isEmpty, isTag, noFilter, parseFilter, queryOf, select, type SortKey, changedAt } from "../data/filters";
import { Interruptions } from "../data/interruptions";
import { remark } from "../data/remark";
import { restartsText } from "../data/restarts";
import { type Status, statuses, type Task } from "../data/types";
import { hour, number, time } from "../format";
import { go, route, setQuery, taskHref } from "../router";
import { connection, serverClock, slow, store, tick } from "../state";
import { Grid, type RowPlace } from "../ui/grid";
import { StatusBadge, StatusIcon } from "../ui/icons";
import { Ago, Empty, PageHead } from "../ui/parts";
import { narrow } from "../ui/theme";
import { BulkBar, CommandDialog, type Message } from "./bulk";

/** The tasks that were picked. They stay picked when the filter changes; commands go to those that are shown. */
export const selected = signal<ReadonlySet<string>>(new Set());

export function pick(ids: Iterable<string>, on: boolean): void {
  const next = new Set(selected.value);
  for (const id of ids) {
    if (on) next.add(id);
    else next.delete(id);
  }
  selected.value = next;
}

const interruptions = new Interruptions((ids) => get<Record<string, number>>(`v1/interruptions?${new URLSearchParams(ids.map((id) => ["id", id]))}`));
/** How often it is looked whether a task is seen whose interruptions are not known, in milliseconds. */
const lookEvery = 1000;

/** Asks for the interruptions of the tasks that are seen; draws the list again when they are there. */
function useInterruptions(): void {
  const [, draw] = useState(0);
  useEffect(() => {
    let asking = false;
    const look = async (): Promise<void> => {
      if (asking || connection.peek().state !== "live") return;
      asking = true;
      try {
        if (await interruptions.fetch(serverClock.peek())) draw((n) => n + 1);
      } catch {
        // The list says so little that is wrong without them that it is tried again in silence.
      }
      asking = false;
    };
    const timer = setInterval(() => void look(), lookEvery);
    return () => clearInterval(timer);
  }, []);
}

/** The columns, and by what each is sorted. */
const columns: [SortKey | undefined, string][] = [
  ["status", "Status"], ["id", "ID"], ["type", "Type"], ["node", "Node"], [undefined, "Why"], ["errors", "Errors"], [undefined, "Interrupted"], ["priority", "Priority"], ["changed", "Changed"],
];

/** The task that was picked last, from which a range goes on. */
let lastPicked = "";

export function TasksPage(): JSX.Element {
  useInterruptions();
  const filter = parseFilter(route.value.query);
  const query = queryOf(filter);
  const shown = useMemo(() => select(store.tasks.values(), filter), [slow.value, query]);
  const ids = useMemo(() => shown.map((t) => t.id), [shown]);
  void tick.value; // rows show what their task is now
  const nodes = [...store.nodes.values()];
  const change = (f: Partial<Filter>): void => setQuery(queryOf({ ...filter, ...f }));
  const toggle = (id: string, index: number, range: boolean): void => {
    const on = !selected.value.has(id);
    const last = range ? ids.indexOf(lastPicked) : -1; // rows come and go: it is not where it was
    pick(last < 0 ? [id] : ids.slice(Math.min(last, index), Math.max(last, index) + 1), on);
    lastPicked = id;
  };
  const seen = useMemo(() => new Set(ids), [ids]);
  const picked = [...selected.value].filter((id) => store.tasks.has(id));
  const chosen = picked.filter((id) => seen.has(id));
  const none = selected.value;
  const [asked, setAsked] = useState<{ message: Message; ids: string[] }>();
  return (
    <div class="page fill">
      <PageHead title="Tasks" count={isEmpty(filter) ? number(ids.length) : `${number(ids.length)} of ${number(store.tasks.size)}`}>
        <a class="button primary" href="#/submit">Submit a task</a>
      </PageHead>
      <Filters filter={filter} change={change} />
      {picked.length > 0 && <BulkBar ids={chosen} hidden={picked.length - chosen.length} shown={ids} ask={(message) => setAsked({ message, ids: chosen })} />}
      {asked && <CommandDialog ids={asked.ids} message={asked.message} onClose={() => setAsked(undefined)} />}
      {ids.length === 0 ? (
        <Nothing filter={filter} />
      ) : (
        <Grid
          label="Tasks"
          role="grid"
          ids={ids}
          rowHeight={narrow.value ? 52 : 34}
          head={<Head filter={filter} change={change} all={ids} />}
          onOpen={(id) => go(taskHref(id))}
          onKey={(e, id) => {
            if ((e.key === "x" || e.key === " ") && id) toggle(id, ids.indexOf(id), e.shiftKey);
            else if (e.key === "a") pick(ids, true);
            else if (e.key === "Escape") selected.value = new Set();
            else return false;
            return true;
          }}
          row={(id, index, place) => {
            const task = store.tasks.get(id);
            return <Row key={place.slot} id={id} task={task} index={index} place={place} picked={none.has(id)} toggle={toggle} why={task ? remark(task, nodes, serverClock.peek(), timeAt) : ""} interrupted={task && interruptions.of(task, serverClock.peek())} />;
          }}
        />
      )}
    </div>
  );
}

function Filters({ filter, change }: { filter: Filter; change: (f: Partial<Filter>) => void }): JSX.Element {
  const types = [...store.types].sort(([a], [b]) => (a < b ? -1 : 1));
  const nodes = [...store.nodes.keys()].sort();
  const flip = (s: Status): void =>
    change({ statuses: filter.statuses.includes(s) ? filter.statuses.filter((o) => o !== s) : [...filter.statuses, s] });
  return (
    <div class="filters" role="search">
      <div class="chips" role="group" aria-label="Statuses">
        {statuses.map((s) => (
          <button key={s} type="button" class={`chip s-${s}`} aria-pressed={filter.statuses.includes(s)} onClick={() => flip(s)}>
            <StatusIcon status={s} />
            {s} <b>{number(store.counts[s])}</b>
          </button>
        ))}
      </div>
      <div class="fields">
        <input
          data-filter type="search" aria-label="Find tasks by ID" placeholder="Find by ID, or ^prefix   /" value={filter.text}
          onInput={(e) => change({ text: e.currentTarget.value })}
          onKeyDown={(e) => {
            if (e.key === "Enter" || e.key === "Escape") document.querySelector<HTMLElement>("[data-list]")?.focus();
          }}
        />
        <input type="search" class="error-text" aria-label="Find tasks by their last error" placeholder="Error contains" value={filter.error} onInput={(e) => change({ error: e.currentTarget.value })} />
        <TagField add={(tag) => change({ tags: [...new Set([...filter.tags, tag])] })} />
        <Choice label="Type" all="All types" chosen={filter.types} options={types} choose={(v) => change({ types: v })} />
        <Choice label="Node" all="All nodes" chosen={filter.nodes} options={nodes.map((n) => [n, undefined])} choose={(v) => change({ nodes: v })} />
        {!isEmpty(filter) && <button type="button" class="button quiet" onClick={() => change(noFilter)}>Clear</button>}
      </div>
      {filter.tags.length > 0 && (
        <div class="chips" role="group" aria-label="Tags that must match">
          {filter.tags.map((tag) => (
            <button key={tag} type="button" class="chip" aria-label={`Do not filter by the tag ${tag}`} onClick={() => change({ tags: filter.tags.filter((t) => t !== tag) })}>{tag} ✕</button>
          ))}
        </div>
      )}
    </div>
  );
}

/** A field that adds a tag to the filter. What is typed is none before it is complete, as it is matched as a whole. */
function TagField({ add }: { add: (tag: string) => void }): JSX.Element {
  const [text, setText] = useState("");
  const commit = (): void => {
    if (!isTag(text)) return;
    add(text);
    setText("");
  };
  return (
    <input
      type="search" class="tag-text" aria-label="Find tasks by a tag, as key=value; Enter adds it" placeholder="Tag: key=value ↵" value={text}
      onInput={(e) => setText(e.currentTarget.value)} onBlur={commit}
      onKeyDown={(e) => {
        if (e.key === "Enter") commit();
      }}
    />
  );
}

function Choice({ label, all, chosen, options, choose }: {
  label: string; all: string; chosen: string[]; options: [string, number | undefined][]; choose: (v: string[]) => void;
}): JSX.Element {
  const several = chosen.length > 1;
  const absent = chosen.length === 1 && !options.some(([o]) => o === chosen[0]);
  return (
    <select aria-label={label} value={several ? "\0" : chosen.length ? `=${chosen[0]}` : ""} onChange={(e) => choose(e.currentTarget.value ? [e.currentTarget.value.slice(1)] : [])}>
      <option value="">{all}</option>
      {several && <option value={"\0"} disabled>{chosen.join(", ")}</option>}
      {absent && <option value={`=${chosen[0]}`}>{chosen[0]}</option>}
      {options.map(([o, n]) => <option key={o} value={`=${o}`}>{o || "(none)"}{n === undefined ? "" : ` · ${number(n)}`}</option>)}
    </select>
  );
}

function Head({ filter, change, all }: { filter: Filter; change: (f: Partial<Filter>) => void; all: string[] }): JSX.Element {
  const every = all.length > 0 && all.every((id) => selected.value.has(id));
  return (
    <>
      <div role="columnheader" class="c-pick">
        <input type="checkbox" aria-label="Select all that are shown" checked={every} tabIndex={-1} onChange={() => pick(all, !every)} />
      </div>
      {columns.map(([key, name]) => {
        if (!key) return <div key={name} role="columnheader" class={`c-${name.toLowerCase()}`}>{name}</div>;
        const on = filter.sort === key;
        return (
          <div key={key} role="columnheader" class={`c-${key}`} aria-sort={on ? (filter.descending ? "descending" : "ascending") : "none"}>
            <button type="button" class="sort" onClick={() => change({ sort: key, descending: on && !filter.descending })}>
              {name}<span aria-hidden="true">{on ? (filter.descending ? " ↓" : " ↑") : ""}</span>
            </button>
          </div>
        );
      })}
    </>
  );
}

interface RowProps {
  id: string;
  task: Task | undefined;
  index: number;
  place: RowPlace;
  picked: boolean;
  why: string;
  interrupted: number | undefined;
  toggle: (id: string, index: number, range: boolean) => void;
}

/** Of a time within the next hours the time of day is enough. */
function timeAt(at: string): string {
  return Date.parse(at) - serverClock.peek() < 12 * 3_600_000 ? hour(Date.parse(at)) : time(at);
}

/** The task on whose row the pointer was pressed last. */
let pressed = "";

/** A row. It is drawn again only if its task, its place or its selection changed. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const p = this.props;
    return next.id !== p.id || next.task !== p.task || next.why !== p.why || next.interrupted !== p.interrupted || next.index !== p.index || next.picked !== p.picked || next.place.active !== p.place.active || next.place.style !== p.place.style;
  }

  override render({ id, task, index, place, picked, why, interrupted, toggle }: RowProps): JSX.Element {
    return (
      <div
        role="row" id={place.id} aria-rowindex={index + 2} aria-selected={picked} class={`row ${place.active ? "active" : ""} ${picked ? "picked" : ""}`}
        style={place.style} data-id={id}
        onPointerDown={() => {
          pressed = id;
          place.onPointerDown();
        }}
        onClickCapture={(e) => {
          if (e.detail === 0 || pressed === id) return;
          e.preventDefault(); // the list has moved below the pointer: it is not this task that was meant
          e.stopPropagation();
        }}
      >
        <div role="gridcell" class="c-pick">
          <input type="checkbox" tabIndex={-1} aria-label={`Select ${id}`} checked={picked} onClick={(e) => toggle(id, index, e.shiftKey)} />
        </div>
        <div role="gridcell" class="c-status">{task ? <StatusBadge status={task.status} /> : "gone"}</div>
        <div role="gridcell" class="c-id"><a href={taskHref(id)} tabIndex={-1} title={id}>{id}</a></div>
        <div role="gridcell" class="c-type">{task?.type}</div>
        <div role="gridcell" class="c-node">{task?.node || <span class="muted">–</span>}</div>
        <div role="gridcell" class="c-why" title={why}>{why}</div>
        <div role="gridcell" class="c-errors num" title={task?.restarts ? restartsText(task.restarts, Date.now()) : task?.errors.at(-1)?.error}>{task && errorCount(task) ? <span class="s-failed">{errorCount(task)}</span> : task?.restarts ? <span class="s-failed">↻{task.restarts.count}</span> : <span class="muted">0</span>}</div>
        <div role="gridcell" class="c-interrupted num">{interrupted ? <span class="s-fault">{interrupted}</span> : <span class="muted">{interrupted ?? "·"}</span>}</div>
        <div role="gridcell" class="c-priority num">{task?.priority}</div>
        <div role="gridcell" class="c-changed num">{task && <Ago at={changedAt(task)} />}</div>
      </div>
    );
  }
}

function Nothing({ filter }: { filter: Filter }): JSX.Element {
  if (!store.listed) return <Empty art="◌" title="Reading the tasks…" />;
  if (!isEmpty(filter)) {
    return (
      <Empty art="○" title="No task matches the filter.">
        <button type="button" class="button" onClick={() => setQuery("")}>Show all {number(store.tasks.size)}</button>
      </Empty>
    );
  }
  return (
    <Empty art="◇" title="There are no tasks yet.">
      <p><a href="#/submit">Submit one here</a>, or in a terminal:</p>
      <code>windlass task submit hello -- echo "hello, world"</code>
    </Empty>
  );
}
