import type { JSX } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { get, send } from "../data/api";
import { liveStatuses, type TaskType } from "../data/types";
import { number } from "../format";
import { connection } from "../state";
import { Action, Ago, Card, Dialog, Field } from "../ui/parts";
import { attempt } from "../ui/toasts";

/** typesEvery is how often the types are asked for, in milliseconds: the server counts all tasks for that. */
const typesEvery = 15_000;

/** The types of tasks, and how to ask for them again. */
export function useTypes(): [TaskType[], () => void] {
  const [types, setTypes] = useState<TaskType[]>([]);
  const reachable = connection.value.state === "live";
  const ask = useCallback(() => {
    get<TaskType[]>("v1/types").then(setTypes, () => undefined); // the stream of events says that the server is away
  }, []);
  useEffect(() => {
    ask();
    const timer = setInterval(() => document.visibilityState === "visible" && ask(), typesEvery);
    return () => clearInterval(timer);
  }, [ask, reachable]);
  return [types, ask];
}

const typesMax = 12;

/** The types of tasks, with those first that are paused. */
export function Types({ types, again }: { types: TaskType[]; again: () => void }): JSX.Element {
  const [asked, setAsked] = useState<string>();
  const sorted = [...types].sort((a, b) => Number(Boolean(b.pause)) - Number(Boolean(a.pause)));
  const order = async (done: string, body: object): Promise<void> => {
    await attempt(done, () => send("POST", "v1/types/commands", body));
    again();
  };
  return (
    <Card title="Types" aside={types.length > typesMax && <span class="muted">{number(types.length)}</span>}>
      {types.length === 0 && <p class="muted">There is none yet.</p>}
      <ul class="types">
        {sorted.slice(0, typesMax).map((t) => (
          <li key={t.type}>
            <a href={`#/tasks?type=${encodeURIComponent(t.type)}`}>{t.type || "(none)"}</a>
            <span class="muted">{t.pause
              ? <>paused <Ago at={t.pause.at} after=" ago" />{t.pause.by ? ` by ${t.pause.by}` : ""}{t.pause.reason ? `: ${t.pause.reason}` : ""}{t.tasks.running ? `; ${number(t.tasks.running)} still run` : ""}</>
              : `${number(liveStatuses.reduce((sum, s) => sum + (t.tasks[s] ?? 0), 0))} live`}</span>
            {t.pause
              ? <Action onClick={() => void order(`${t.type || "The type"} is resumed.`, { type: t.type, command: "resume" })}>Resume</Action>
              : <Action onClick={() => setAsked(t.type)}>Pause</Action>}
          </li>
        ))}
      </ul>
      {asked !== undefined && <PauseDialog type={asked} onClose={() => setAsked(undefined)} act={(reason) => void order(`${asked || "The type"} is paused.`, { type: asked, command: "pause", reason })} />}
    </Card>
  );
}

function PauseDialog({ type, onClose, act }: { type: string; onClose: () => void; act: (reason: string) => void }): JSX.Element {
  const [reason, setReason] = useState("");
  return (
    <Dialog title={type ? `Pause all of type ${type}?` : "Pause all tasks without a type?"} onClose={onClose}>
      <p>Its tasks are stopped on all nodes, and those that come are paused as well, until the type is resumed.</p>
      <Field label="Reason" for="pause-reason" hint="For whoever looks at the types">
        <input id="pause-reason" value={reason} maxLength={1024} aria-describedby="pause-reason-hint" onInput={(e) => setReason(e.currentTarget.value)} />
      </Field>
      <footer>
        <button type="button" class="button" onClick={onClose}>Cancel</button>
        <Action kind="danger solid" onClick={() => { onClose(); act(reason); }}>Pause</Action>
      </footer>
    </Dialog>
  );
}
