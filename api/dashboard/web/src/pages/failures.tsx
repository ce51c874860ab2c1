import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count } from "../data/attention";
import { failures } from "../data/failures";
import { number } from "../format";
import { taskHref } from "../router";
import { slow, store } from "../state";
import { Action, Ago, Card, Empty, PageHead } from "../ui/parts";
import { OrderDialog } from "./bulk";

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

/** What failed, by error, and how to run it again. */
export function FailuresPage(): JSX.Element {
  const groups = useMemo(() => failures(store.tasks.values()), [slow.value]);
  const [asked, setAsked] = useState<string[]>();
  return (
    <div class="page">
      <p class="crumbs"><a href="#/tasks">Tasks</a></p>
      <PageHead title="Failures" count={number(store.counts.failed)}>
        <a class="button" href="#/tasks?status=failed&sort=-changed">As a list</a>
      </PageHead>
      {groups.length === 0 && <Empty art="✓" title={store.listed ? "No task has failed." : "Reading the tasks…"} />}
      {groups.map((g) => (
        <Card
          key={`${g.type} ${g.error}`} title={titleOf(g.error)}
          aside={<Action kind="primary" onClick={() => setAsked(g.tasks.map((t) => t.id))}>Retry {g.tasks.length > 1 ? `all ${number(g.tasks.length)}` : ""}</Action>}
        >
          <p>{count(g.tasks.length, "task")} of type {g.type || "(none)"}</p>
          {titleOf(g.error) !== g.error && g.error && <pre class="note bad" tabIndex={0}>{g.error}</pre>}
          <p>
            {g.tasks.slice(0, shownMax).map((t) => <a key={t.id} class="tag" href={taskHref(t.id)}>{t.id}</a>)}
            {g.tasks.length > shownMax && <span class="muted"> and {number(g.tasks.length - shownMax)} more</span>}
          </p>
          {g.tasks[0]?.finished_at && <p class="muted">The latest <Ago at={g.tasks[0].finished_at} after=" ago" /></p>}
        </Card>
      ))}
      {asked && <OrderDialog ids={asked} message="retry" onClose={() => setAsked(undefined)} />}
    </div>
  );
}
