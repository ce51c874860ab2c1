import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count } from "./data/attention";
import { hour, number } from "./format";
import { ElectionsPage } from "./pages/elections";
import { FailuresPage } from "./pages/failures";
import { NodePage } from "./pages/node";
import { NodesPage } from "./pages/nodes";
import { OverviewPage } from "./pages/overview";
import { SubmitPage } from "./pages/submit";
import { TaskPage } from "./pages/task";
import { TasksPage } from "./pages/tasks";
import { TreesPage } from "./pages/trees";
import { route } from "./router";
import { clock, connection, identity, refusal, signIn, slow, store } from "./state";
import { Logo } from "./ui/icons";
import { helpShown, places } from "./ui/keys";
import { Dialog, Empty, Field } from "./ui/parts";
import { theme, themes } from "./ui/theme";
import { Toasts } from "./ui/toasts";

const nav: [string, string, () => number | undefined][] = [
  ["overview", "Overview", () => undefined], ["tasks", "Tasks", () => store.tasks.size], ["nodes", "Nodes", () => store.nodes.size],
  ["trees", "Trees", () => undefined], ["elections", "Elections", () => store.elections.size],
];

const belongsTo: Record<string, string> = { node: "nodes", task: "tasks", submit: "tasks", failures: "tasks", queue: "trees" };

export function App(): JSX.Element {
  const { page, rest } = route.value;
  useEffect(() => {
    const name = page === "task" || page === "node" ? rest : page[0]?.toUpperCase() + page.slice(1);
    document.title = `${name} · Windlass`;
    window.scrollTo(0, 0);
  }, [page, rest]);
  return (
    <>
      <a class="skip" href="#title" onClick={(e) => { e.preventDefault(); document.getElementById("title")?.focus(); }}>Skip to the content</a>
      <Header page={page} />
      <Stale />
      <main>{connection.value.state === "signed-out" && !store.listed ? <SignIn /> : <Page page={page} rest={rest} />}</main>
      <Toasts />
      {connection.value.state === "signed-out" && store.listed && <Dialog title="Sign in again" onClose={() => {}}><SignInForm /></Dialog>}
      {helpShown.value && <Help />}
    </>
  );
}

function Page({ page, rest }: { page: string; rest: string }): JSX.Element {
  switch (page) {
    case "overview": return <OverviewPage />;
    case "tasks": return <TasksPage />;
    case "task": return <TaskPage key={rest} id={rest} />;
    case "failures": return <FailuresPage />;
    case "node": return <NodePage key={rest} name={rest} />;
    case "nodes": return <NodesPage />;
    case "trees": return <TreesPage />;
    case "elections": return <ElectionsPage />;
    case "submit": return <SubmitPage key="task" job={false} />;
    case "queue": return <SubmitPage key="job" job />;
    default: return <div class="page"><h1 id="title" tabIndex={-1}>Not found</h1><Empty art="∅" title="There is no such page."><a href="#/">Overview</a></Empty></div>;
  }
}

function Header({ page }: { page: string }): JSX.Element {
  void slow.value;
  const at = belongsTo[page] ?? page;
  const me = identity.value;
  const limited = me ? refusal("operate") : "";
  return (
    <header class="top">
      <a class="brand" href="#/" aria-label="Windlass, overview"><Logo /><span>Windlass</span></a>
      <nav aria-label="Pages">
        {nav.map(([name, title, n]) => (
          <a key={name} href={name === "overview" ? "#/" : `#/${name}`} aria-current={at === name ? "page" : undefined}>
            {title}{n() ? <span class="count">{number(n() ?? 0)}</span> : null}
          </a>
        ))}
      </nav>
      <div class="tools">
        {me && <span class="where" title={`${me.broker || "broker"}, namespace ${me.namespace}, Windlass ${me.version}`}>{me.namespace}</span>}
        {me && <span class={`role ${limited ? "limited" : ""}`} title={limited || `You are ${me.name}, and may do what the role ${me.role} may.`}>{me.read_only ? "read-only" : me.role}</span>}
        <Indicator />
        <select class="theme" aria-label="Colours" value={theme.value} onChange={(e) => { theme.value = e.currentTarget.value as (typeof themes)[number]; }}>
          {themes.map((t) => <option key={t} value={t}>{t}</option>)}
        </select>
        <button type="button" class="button quiet" aria-label="Keys" title="Keys (?)" onClick={() => { helpShown.value = true; }}>?</button>
      </div>
    </header>
  );
}

const words = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", stale: "Stale", "signed-out": "Signed out" } as const;

/** How up to date the page is; always to be seen. */
function Indicator(): JSX.Element {
  const c = connection.value;
  const old = c.since > 0;
  return (
    <span class={`live ${c.state}`} role="status" title={c.detail || undefined} data-state={c.state}>
      <span class="lamp" aria-hidden="true" />
      <span class="word">{words[c.state]}</span>
      {old && <span class="since"> since {hour(c.since)}</span>}
    </span>
  );
}

/** Says across the page that what it shows may be old, and why. */
function Stale(): JSX.Element | null {
  const c = connection.value;
  if (!c.since || c.state === "live" || c.state === "connecting") return null;
  const seconds = Math.max(0, Math.round((clock.value - c.since) / 1000));
  return (
    <p class={`stale ${c.state}`}>
      <b>What you see is {count(seconds, "second")} old.</b> {c.detail} {c.state !== "signed-out" && "Trying again…"}
    </p>
  );
}

function SignIn(): JSX.Element {
  const { closed, detail } = connection.value;
  return (
    <div class="page signin">
      <h1 id="title" tabIndex={-1}>Windlass</h1>
      {closed ? <p class="note bad">{detail}</p> : <div class="card"><SignInForm /></div>}
    </div>
  );
}

function SignInForm(): JSX.Element {
  const [value, setValue] = useState("");
  const [wrong, setWrong] = useState(connection.value.detail);
  return (
    <form onSubmit={(e) => { e.preventDefault(); if (value.trim() && !signIn(value)) setWrong("A token has no spaces, and only letters, digits and signs of ASCII."); }}>
      <Field label="Token" for="token" {...(wrong ? { error: wrong } : {})} hint={<>This server wants a valid token. <code>windlass dev</code> prints an address that has one; <code>windlass token</code> makes others.</>}>
        <input id="token" type="password" autoComplete="off" value={value} aria-invalid={wrong !== ""} aria-describedby="token-hint" onInput={(e) => setValue(e.currentTarget.value)} />
      </Field>
      <p class="muted">It is kept in this tab until that is closed.</p>
      <button type="submit" class="button primary">Continue</button>
    </form>
  );
}

function Help(): JSX.Element {
  const keys: [string, string][] = [
    ["j k ↓ ↑", "next, previous in a list"], ["Enter", "open"], ["x Space", "select; with Shift up to there"], ["a", "select all that are shown"], ["Esc", "select none, close"],
    ["/", "filter"], ["← →", "close, open a part of a tree"], ["+ − 0", "zoom a graph, fit it"],
    ...Object.entries(places).map(([k, [, name]]): [string, string] => [`g ${k}`, name]), ["?", "this help"],
  ];
  return (
    <Dialog title="Keys" onClose={() => { helpShown.value = false; }}>
      <dl class="facts keys">{keys.map(([k, what]) => <div key={k}><dt>{k.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{what}</dd></div>)}</dl>
    </Dialog>
  );
}
