import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count } from "../data/attention";
import { byStatus, erredAt, failures } from "../data/failures";
import { number } from "../format";
import { taskHref } from "../router";
import { slow, store } from "../state";
import { Action, Ago, Card, Empty, PageHead } from "../ui/parts";
import { applies, CommandDialog, type Message, messages } from "./bulk";

/** shownMax is how many tasks of a group are named. */
const shownMax = 5;

/** titleMax is how many characters of an error are its title. */
const titleMax = 100;

/** The first line of an error, if it is not too long. */
function titleOf(error: string): string {
  const line = error.split("\n", 1)[0] ?? "";
  if (!line) return "(no error was recorded)";
  return line.length > titleMax ? `${line.slice(0, titleMax - 1)}…` : line;
}

/** What an error has stopped, by error, and how to run it again. */
export function FailuresPage(): JSX.Element {
  const groups = useMemo(() => failures(store.tasks.values()), [slow.value]);
  const [asked, setAsked] = useState<{ ids: string[]; message: Message }>();
  return (
    <div class="page">
      <p class="crumbs"><a href="#/tasks">Tasks</a></p>
      <PageHead title="Failures" count={number(groups.reduce((n, g) => n + g.tasks.length, 0))}>
        <a class="button" href="#/tasks?status=failed&status=sleeping&status=fault&sort=-changed">As a list</a>
      </PageHead>
      {groups.length === 0 && <Empty art="✓" title={store.listed ? "No task has failed, or is to be tried again." : "Reading the tasks…"} />}
      {groups.map((g) => (
        <Card
          key={`${g.type} ${g.error}`} title={titleOf(g.error)}
          aside={<div class="actions">{(["run", "retry"] as const).map((message) => {
            const ids = g.tasks.filter((t) => applies(message, t.status)).map((t) => t.id);
            return ids.length > 0 && <Action key={message} kind="primary" onClick={() => setAsked({ ids, message })}>{messages[message][0]} {ids.length > 1 ? `all ${number(ids.length)}` : ""}</Action>;
          })}</div>}
        >
          <p>{count(g.tasks.length, "task")} of type {g.type || "(none)"}: {byStatus(g.tasks)}</p>
          {titleOf(g.error) !== g.error && g.error && <pre class="note bad" tabIndex={0}>{g.error}</pre>}
          <p>
            {g.tasks.slice(0, shownMax).map((t) => <a key={t.id} class="tag" href={taskHref(t.id)}>{t.id}</a>)}
            {g.tasks.length > shownMax && <span class="muted"> and {number(g.tasks.length - shownMax)} more</span>}
          </p>
          {g.tasks[0] && <p class="muted">The latest <Ago at={erredAt(g.tasks[0])} after=" ago" /></p>}
        </Card>
      ))}
      {asked && <CommandDialog ids={asked.ids} message={asked.message} onClose={() => setAsked(undefined)} />}
    </div>
  );
}
