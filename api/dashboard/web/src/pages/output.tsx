import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, send } from "../data/api";
import { lacksOf, outlivedOf, outputOf, reportOf, usageText } from "../data/report";
import type { CommandResult, TaskDetail } from "../data/types";
import { Action, Ago, Card } from "../ui/parts";
import { explain, toast } from "../ui/toasts";

/** How often it is looked whether the node has reported, and how many times, in milliseconds. */
const lookEvery = 400;
const looksMax = 25;
/** The pauses between two reports that are followed, in milliseconds: they double while nothing is added. */
const followMin = 1000;
const followMax = 5000;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What the command of a task has printed. While it runs, its node is asked for it, once or again and again. */
export function OutputCard({ detail: d, refresh }: { detail: TaskDetail; refresh: () => void }): JSX.Element | null {
  const [follows, setFollows] = useState(false);
  const text = useRef<HTMLPreElement>(null);
  const running = d.status === "running";
  const [report, result] = [reportOf(d), outputOf(d.result)];
  const outlived = running ? 0 : outlivedOf(d.result);
  const lacks = lacksOf(d);
  useEffect(() => {
    if (!follows || !running) return;
    let stopped = false;
    void (async () => {
      for (let wait = followMin, before = ""; !stopped; wait = Math.min(2 * wait, followMax)) {
        const output = await ask(d.id, () => stopped);
        if (stopped) return;
        if (output === undefined) return setFollows(false);
        if (output !== before) wait = followMin;
        before = output;
        refresh();
        await pause(wait);
      }
    })();
    return () => {
      stopped = true;
    };
  }, [d.id, follows, running]);
  useEffect(() => {
    if (follows && text.current) text.current.scrollTop = text.current.scrollHeight;
  }, [follows, report?.output]);
  if ((report ?? result) === undefined) return null;
  const once = async (): Promise<void> => {
    if ((await ask(d.id, () => false)) !== undefined) refresh();
  };
  const buttons = (
    <div class="actions">
      <Action onClick={() => void once()} blocked={follows ? "It is being followed." : ""}>Output now</Action>
      <Action onClick={() => setFollows(!follows)}>{follows ? "Stop following" : "Follow"}</Action>
    </div>
  );
  return (
    <Card title="Output" aside={running && buttons}>
      {report?.at && <p class="muted">As of <Ago at={report.at} after=" ago" />{report.usage && <> · <span class="usage">{usageText(report.usage)}</span></>}</p>}
      {lacks && <p class="s-failed">The log on the node is incomplete: {lacks}</p>}
      {outlived > 0 && <p class="muted">When the program had exited, {outlived === 1 ? "1 process still ran and was ended" : `${outlived} processes still ran and were ended`}: have it run in the foreground.</p>}
      <pre class="output" tabIndex={0} ref={text}>{report?.output || result || (report && !report.at ? "(not asked for yet)" : "(nothing)")}</pre>
    </Card>
  );
}

/** Has the node of a task report, and returns the output: undefined if it did not, which is said. */
async function ask(id: string, stopped: () => boolean): Promise<string | undefined> {
  const look = async (): Promise<ReturnType<typeof reportOf>> => reportOf(await get<TaskDetail>(`v1/tasks/${encodeURIComponent(id)}`));
  try {
    const before = await look();
    const [told] = (await send<CommandResult[]>("POST", "v1/commands", { message: "checkpoint", ids: [id], wait: "5s" })) ?? [];
    if (told?.error) throw new Error(told.error);
    for (let looks = 0; looks < looksMax && !stopped(); looks++) {
      await pause(lookEvery);
      const report = await look();
      if (!report) return undefined; // it does not run any more
      if (report.at !== before?.at) return report.output ?? "";
    }
    if (!stopped()) toast("The node has not reported.", true);
  } catch (cause) {
    if (!stopped()) toast(explain(cause), true);
  }
  return undefined;
}
