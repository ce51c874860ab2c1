import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../data/api";
import { count } from "../data/attention";
import type { Death } from "../data/types";
import { taskHref } from "../router";
import { connection } from "../state";
import { Ago, Card } from "../ui/parts";

/** How often it is asked who has died, in milliseconds: no stream tells it. */
const askEvery = 15_000;

/** The deaths of nodes within the last hour, the latest first; undefined while they are not known. */
export function useDeaths(): Death[] | undefined {
  const [deaths, setDeaths] = useState<Death[]>();
  const reachable = connection.value.state === "live";
  useEffect(() => {
    if (!reachable) return undefined;
    const left = new AbortController();
    const ask = (): void => {
      get<Death[]>("v1/deaths", left.signal).then(setDeaths, () => {}); // what is shown stays
    };
    ask();
    const timer = setInterval(ask, askEvery);
    return () => {
      left.abort();
      clearInterval(timer);
    };
  }, [reachable]);
  return deaths;
}

/** What is recorded of the deaths of one node. */
export function Deaths({ deaths }: { deaths: readonly Death[] }): JSX.Element {
  return (
    <Card title="Deaths" aside={<span class="muted">in the last hour</span>}>
      {deaths.length === 0 && <p class="muted">None.</p>}
      <ol class="timeline">
        {deaths.map((d) => (
          <li key={d.incarnation}>
            <span class="dot s-fault" aria-hidden="true" />
            <span class="event">{d.process ? `its ${d.process} died` : d.restarted ? "died, and came back" : "vanished"}</span>
            <span class="where">{count(d.claims, "task")} on it</span>
            <span class="muted"><Ago at={d.at} after=" ago" /></span>
            <span class="detail">{d.culprit ? <>Task <a class="id" href={taskHref(d.culprit)}>{d.culprit}</a> explains {d.count === 1 ? "it" : `${d.count} deaths`}.</> : "No task is known to explain it."}</span>
          </li>
        ))}
      </ol>
    </Card>
  );
}
