import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { send } from "../data/api";
import type { Election } from "../data/types";
import { number } from "../format";
import { slow, store } from "../state";
import { StatusIcon } from "../ui/icons";
import { Action, Ago, Dialog, Empty, PageHead } from "../ui/parts";
import { attempt } from "../ui/toasts";
import { walk } from "./nodes";

export function ElectionsPage(): JSX.Element {
  void slow.value;
  const elections = [...store.elections.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return (
    <div class="page">
      <PageHead title="Elections" count={number(elections.length)} />
      {elections.length === 0 && (
        <Empty art="♛" title={store.listed ? "Nobody stands in an election." : "Reading the elections…"}>
          <p>Run a command on one machine at a time:</p>
          <code>windlass elect nightly -- ./job.sh</code>
        </Empty>
      )}
      <ul class="nodes" data-list tabIndex={elections.length ? 0 : undefined} aria-label="Elections" onKeyDown={walk}>
        {elections.map((e) => <ElectionCard key={e.name} election={e} />)}
      </ul>
    </div>
  );
}

function ElectionCard({ election: e }: { election: Election }): JSX.Element {
  const [asked, setAsked] = useState(false);
  const resigning = e.candidates[0]?.resigning === true;
  return (
    <li class="card node" tabIndex={-1} data-card>
      <header>
        <h2>{e.name}</h2>
        {resigning && <span class="badge s-paused"><StatusIcon status="paused" />resigning</span>}
      </header>
      <ol class="line-up">
        {e.candidates.map((c, i) => (
          <li key={c.token} class={i === 0 ? "leads" : ""}>
            <span class="place">{i === 0 ? "leads" : `${i}.`}</span><b>{c.name}</b><span class="muted num">token {c.token}</span>
            {c.silent_since && <span class="badge s-failed">not renewed for <Ago at={c.silent_since} /></span>}
          </li>
        ))}
      </ol>
      <div class="commands"><Action blocked={resigning ? "It was asked already." : ""} onClick={() => setAsked(true)}>{`Resign ${e.leader}`}</Action></div>
      {asked && <ResignDialog election={e} onClose={() => setAsked(false)} />}
    </li>
  );
}

function ResignDialog({ election: now, onClose }: { election: Election; onClose: () => void }): JSX.Element {
  const [e] = useState(now); // who was asked about, whoever leads meanwhile
  const next = e.candidates[1];
  const act = (): void => {
    onClose();
    void attempt(`${e.leader} was asked to give ${e.name} up.`, () => send("POST", `v1/elections/${encodeURIComponent(e.name)}/resign`, {}));
  };
  return (
    <Dialog title={`Have ${e.leader} resign?`} onClose={onClose}>
      <p>It gives up leading “{e.name}”{next ? <>, and <b>{next.name}</b>, who is next in line, leads after it</> : "; nobody else stands, so it may lead again"}.</p>
      <footer>
        <button type="button" class="button" onClick={onClose}>Cancel</button>
        <Action kind="primary" blocked={now.token === e.token ? "" : `${now.leader} leads by now.`} onClick={act}>Ask it to resign</Action>
      </footer>
    </Dialog>
  );
}
