//go:build e2e && linux

package browsertest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// place is a page, and its heading.
type place struct{ name, hash, title string }

var places = []place{
	{"overview", "#/", "Overview"}, {"tasks", "#/tasks", "Tasks"}, {"task", "#/task/steady-0", "steady-0"}, {"nodes", "#/nodes", "Nodes"}, {"node", "#/node/dev-1", "dev-1"},
	{"trees", "#/trees", "Trees"}, {"trees-list", "#/trees?view=list", "Trees"}, {"elections", "#/elections", "Elections"},
	{"submit", "#/submit", "Submit a task"}, {"queue", "#/queue", "Queue a job"},
}

// steady returns tasks that run until they are stopped.
func steady(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"steady-%d","type":"exec","props":{"command":["sleep","3600"]}}`+"\n", i)
	}
	return lines.String()
}

const jobs = `{"name":"site","type":"exec","data":{"command":["true"]}}
{"name":"fetch","type":"exec","parent":"site_exec","data":{"command":["true"]}}
{"name":"parse","type":"exec","parent":"site_exec","data":{"command":["sleep","3600"]}}
{"name":"index","type":"exec","parent":"site_exec/parse_exec","data":{"command":["true"]}}
{"name":"links","type":"wait","parent":"site_exec"}
{"name":"check","type":"wait","parent":"site_exec/links_wait"}
{"name":"report","type":"wait","needs":["site_exec|parse_exec|index_exec","site_exec|links_wait"]}
`

func TestDashboard_ShowsWhatHappensAsItHappensAndActs(t *testing.T) {
	needsChromium(t)
	w := newWorld(t)
	dev, address := w.dev("--nodes", "2")
	b := open(t, address)
	b.sees(`!location.href.includes("token") && sessionStorage.length === 1`, "the token is not in the address bar")
	data := w.path("data")
	b.emptyPages()
	b.submits()
	b.survivesANode(w, data)
	b.drains()
	b.commandsMany()
	b.drawsATree(w, data)
	b.followsAnElection(w, data)
	b.namesTroubles(w, data)
	b.changesTasks()
	b.hasCharts()
	b.followsKeys()
	b.isAccessible()
	b.losesTheServer(w, dev)
}

// emptyPages shows that each page says what to do when there is nothing on it.
func (b *browser) emptyPages() {
	b.Helper()
	for hash, says := range map[string]string{"#/tasks": "There are no tasks yet", "#/trees": "There are no jobs", "#/elections": "Nobody stands"} {
		b.visit(hash, "")
		b.says(".empty", says)
	}
}

// submits submits a task by the form, with a mistake first, and pauses it.
func (b *browser) submits() {
	b.Helper()
	b.press("g", "s")
	b.says("h1", "Submit a task")
	b.fill("#id", "from/page")
	b.fill("#command", `sh -c "echo from the page; while sleep 0.5; do i=x$i; echo line $i; done"`)
	b.push("form", "Submit")
	b.says("#id-hint", "slash")
	b.expects("status of 422")
	b.fill("#id", "from-page")
	b.fill("#tags", "tenant=t7 urgent=")
	b.push("form", "What would happen?")
	b.says("form", "would claim it")
	b.push("form", "Submit")
	b.says("h1", "from-page")
	b.says(".pagehead .badge", "running")
	b.says(".timeline", "claimed")
	b.push(".card", "Output now")
	b.says(".output", "from the page")
	b.says(".usage", "process")
	b.push(".card", "Follow")
	b.says(".output", "line xxxxxxxxxx")
	b.push(".card", "Stop following")
	b.push(".commands", "Pause")
	b.says(".toast", "Pause: done")
	b.says(".pagehead .badge", "paused")
	b.says(".timeline", "paused")
	b.says(".card", "Why it does not run")
	b.says(".facts", "tenant=t7")
	b.runs(`document.querySelector(".facts a.tag").click()`)
	b.says("h1", "Tasks")
	b.sees(`location.hash === "#/tasks?tag=tenant%3Dt7" && document.querySelectorAll(".gridbody .row").length === 1`, "the tasks with its tag")
	b.push(".filters", "tenant=t7")
	b.sees(`location.hash === "#/tasks"`, "no filter any more")
}

// survivesANode joins a node of another process, kills it, and sees its tasks move.
func (b *browser) survivesANode(w *world, data string) {
	b.Helper()
	extra := w.start("extra", "node", "--broker", data, "--name", "extra", "--zone", "east", "--label", "disk=ssd", "--capacity", "40", "--exec-allow", "*", "--session-ttl", "5s")
	b.visit("#/nodes", "Nodes")
	b.sees(`document.querySelector('[data-node="extra"]')`, "the node that joined")
	b.visit("#/node/extra", "extra")
	b.says(".facts", "disk=ssd")
	b.says(".columns", "in the last hour")
	b.visit("#/nodes", "Nodes")
	w.run(steady(30), "task", "submit", "--broker", data, "-f", "-")
	b.sees(`Number(/(\d+) tasks/.exec(document.querySelector('[data-node="extra"] .loadline').textContent)?.[1]) >= 1`, "a share of the tasks")
	b.picture("nodes-light")
	b.visit("#/tasks?node=extra&status=running", "Tasks")
	b.sees(`document.querySelectorAll(".gridbody .row").length >= 1`, "the tasks on it")
	w.end(extra, syscall.SIGKILL)
	b.says(".empty", "No task matches")
	b.visit("#/nodes", "Nodes")
	b.sees(`!document.querySelector('[data-node="extra"]')`, "the node is gone")
	b.visit("#/node/extra", "extra")
	b.says(".empty", "No such node is there")
	b.says(".timeline", "vanished")
	b.visit("#/", "Overview")
	b.sees(`document.querySelector(".stat.s-running b").textContent === "30"`, "all of them run elsewhere")
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelector(".c-interrupted .s-fault")?.textContent >= 1`, "that tasks were interrupted")
	b.visit("#/", "Overview")
	b.sees(`/[1-9]\d* moves so far/.test(document.body.textContent)`, "the moves")
}

// hasCharts opens the page anew: its charts begin with what the server has sampled.
func (b *browser) hasCharts() {
	b.Helper()
	b.visit("#/", "Overview")
	b.runs(`location.reload()`)
	b.sees(`(() => {
		const shown = /the last (?:(\d+) min )?([\d.]+) s/.exec(document.querySelector(".span")?.textContent);
		return shown && (Number(shown[1] ?? 0) * 60 + Number(shown[2])) * 1000 > performance.now() + 8000;
	})()`, "samples from before the page was opened")
	b.push(".span", "Day")
	b.sees(`document.querySelector(".span [aria-pressed=true]").textContent === "Day"`, "the last day")
}

// drains drains a node, and freezes and unfreezes it.
func (b *browser) drains() {
	b.Helper()
	b.visit("#/nodes", "Nodes")
	b.runs(`document.querySelector('[data-node="dev-1"]').focus()`)
	b.press(kb.Enter)
	b.says("h1", "dev-1")
	b.push(`[data-node="dev-1"]`, "Drain")
	b.says("dialog", "would move: ")
	b.says("dialog", " to dev-2.")
	b.push("dialog", "Drain")
	b.visit("#/nodes", "Nodes")
	b.says(`[data-node="dev-1"]`, "draining")
	b.says(`[data-node="dev-1"] .loadline`, "0 tasks")
	b.says(`[data-node="dev-2"] .loadline`, "31 tasks")
	b.visit("#/", "Overview")
	b.says(".findings", "Node dev-1 is draining")
	b.visit("#/nodes", "Nodes")
	b.push(".pagehead", "What would move?")
	b.fill("#plan-join", "n9:weight=2")
	b.push(".planner", "Show")
	b.says(".plan", "would move")
	b.says(".plan", "n9")
	b.visit("#/node/dev-1", "dev-1")
	b.confirm(`[data-node="dev-1"]`, "Balance")
	b.says(".toast", "dev-1 was told to balance")
	b.confirm(`[data-node="dev-1"]`, "Freeze")
	b.confirm(`[data-node="dev-1"]`, "Unfreeze")
	b.says(`[data-node="dev-1"]`, "drained")
	b.confirm(`[data-node="dev-1"]`, "Uncordon")
	b.says(".pagehead", "takes tasks")
	b.push(`[data-node="dev-1"]`, "Cordon")
	b.fill("#reason", "its disk is replaced")
	b.push("dialog", "Cordon")
	b.says(`[data-node="dev-1"]`, "its disk is replaced")
	b.visit("#/node/dev-2", "dev-2")
	b.push(`[data-node="dev-2"]`, "Drain")
	b.says("dialog", "would wait: no other node can take them.")
	b.push("dialog", "Cancel")
	b.visit("#/", "Overview")
	b.says(".findings", "Node dev-1 is cordoned")
	b.visit("#/node/dev-1", "dev-1")
	b.confirm(`[data-node="dev-1"]`, "Uncordon")
	b.says(".pagehead", "takes tasks")
}

// commandsMany filters, selects by keys, and kills what was selected.
func (b *browser) commandsMany() {
	b.Helper()
	b.visit("#/tasks", "Tasks")
	b.sees(`document.querySelector(".chip.s-running b").textContent === "30"`, "that all of them run")
	b.press("/")
	b.sees(`document.activeElement.matches("[data-filter]")`, "the filter has the focus")
	b.press("^steady-2")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 11 && location.hash.includes("q=%5Esteady-2")`, "the filter, in the address as well")
	b.press(kb.Enter, "a")
	b.says(".bulkbar", "11 tasks selected")
	b.picture("tasks-selected")
	b.push(".bulkbar", "Kill")
	b.says("dialog h2", "Kill 11 tasks?")
	b.says("dialog .breakdown", "11 running")
	b.sees(`document.querySelectorAll("dialog .ids li").length === 11`, "which ones")
	b.push("dialog", "Kill 11 tasks")
	b.says("dialog", "11 have done it")
	b.push("dialog", "Close")
	b.sees(`[...document.querySelectorAll(".gridbody .row .badge")].every((e) => e.textContent === "killed")`, "that they were killed")
	b.sees(`!document.querySelector(".bulkbar")`, "nothing is selected any more")
}

// drawsATree queues jobs, and sees them as a graph and as a list.
func (b *browser) drawsATree(w *world, data string) {
	b.Helper()
	w.run(jobs, "tree", "queue", "--broker", data, "-f", "-")
	b.visit("#/trees", "Trees")
	b.sees(`document.querySelectorAll(".vertex").length === 7`, "the jobs")
	b.sees(`document.querySelectorAll(".edge.need").length === 2 && document.querySelectorAll(".edge").length === 7`, "what waits for what")
	b.sees(`document.querySelector('.vertex[data-id="site_exec|fetch_exec"]').matches(".s-completed")`, "one is done")
	b.sees(`document.querySelector('.vertex[data-id="site_exec|parse_exec"]').matches(".s-running")`, "one runs")
	b.visit("#/queue?parent=site_exec%7Clinks_wait", "Queue a job")
	b.fill("#id", "extra")
	b.fill("#type", "wait")
	b.push("form", "Queue")
	b.sees(`document.querySelector('.vertex[data-id="site_exec|links_wait|extra_wait"]')`, "the job that was queued here")
	b.push(".filters", "List")
	b.sees(`document.querySelectorAll('[role="treegrid"] .gridbody [role="row"]').length === 8`, "the list")
	b.runs(`document.querySelector("[data-list]").focus()`)
	b.press("j", kb.ArrowDown, kb.Home)
	b.sees(`document.querySelector(".row.active").dataset.id === "report_wait"`, "the first is active")
	b.press("j", kb.ArrowLeft)
	b.sees(`document.querySelectorAll('[role="treegrid"] .gridbody [role="row"]').length === 2`, "a closed part")
	b.push(".filters", "Graph")
	b.sees(`document.querySelectorAll(".vertex").length === 8`, "the graph again")
	b.runs(`document.querySelector('.vertex[data-id="site_exec|parse_exec"]').dispatchEvent(new MouseEvent("click", { bubbles: true }))`)
	b.says("h1", "site_exec|parse_exec")
}

// followsAnElection sees who leads, and has them resign.
func (b *browser) followsAnElection(w *world, data string) {
	b.Helper()
	w.start("elect-1", "elect", "--broker", data, "--candidate", "alpha", "nightly", "--", "sleep", "3600")
	b.visit("#/elections", "Elections")
	b.says(".line-up .leads", "alpha")
	w.start("elect-2", "elect", "--broker", data, "--candidate", "beta", "nightly", "--", "sleep", "3600")
	b.says(".line-up", "beta")
	b.push(".card", "Resign alpha")
	b.says("dialog", "beta, who is next in line")
	b.push("dialog", "Ask it to resign")
	b.says(".line-up .leads", "beta")
}

// troubles has tasks that no node runs, one that fails and is retried, and one that fails for
// good.
const troubles = `{"id":"mail-1","type":"mail"}
{"id":"mail-2","type":"mail","tags":{"team":"mail, east"}}
{"id":"flaky","type":"exec","props":{"command":["sh","-c","echo no such host >&2; exit 7"],"restart":"on-failure"},"retry":{"errors":-1,"min":"1h","max":"2h","window":"24h"}}
{"id":"hopeless","type":"exec","props":{"command":["false"]},"retry":{"errors":1,"window":"1h"}}
`

// namesTroubles sees what needs attention, and why.
func (b *browser) namesTroubles(w *world, data string) {
	b.Helper()
	w.run(troubles, "task", "submit", "--broker", data, "-f", "-")
	b.visit("#/task/flaky", "flaky")
	b.says(".pagehead .badge", "sleeping")
	b.says(".errors", "exit")
	b.visit("#/", "Overview")
	b.says(".findings", "2 tasks of type mail that nobody runs")
	b.says(".findings", "no node runs the type mail")
	b.says(".findings", "1 task of type exec to be retried")
	b.says(".findings", "1 task failed")
	b.sees(`document.querySelectorAll(".toast").length === 0`, "no messages any more")
	b.picture("overview")
	b.runs(`[...document.querySelectorAll(".findings a")].find((e) => e.textContent.includes("mail")).click()`)
	b.sees(`document.querySelectorAll(".gridbody .row").length === 2`, "the tasks that it is about")
	b.says(".c-why", "no node runs the type mail")
}

// changesTasks edits and commands one task, finds one by its error, and deletes one.
func (b *browser) changesTasks() {
	b.Helper()
	b.visit("#/task/mail-1", "mail-1")
	b.says(".life .now", "no node can take it")
	b.says(".life .next", "Runs")
	b.push(".commands", "Edit…")
	b.fill("#edit-text", `{"type":"exec","props":{"command":["sleep","3600"]`)
	b.sees(`document.querySelector("dialog .field.wrong .error")`, "that it cannot be read")
	b.fill("#edit-text", `{"type":"exec","props":{"command":["sleep","3600"]}}`)
	b.says("dialog .changes", `props none → {"command":["sleep","3600"]}`)
	b.says("dialog .changes", `type "mail" → "exec"`)
	b.push("dialog", "Change")
	b.says(".toast", "mail-1: 2 values changed")
	b.says(".pagehead .badge", "running")
	b.says(".life .now", "Runs")
	b.push(".commands", "Pause")
	b.says(".pagehead .badge", "paused")
	b.sees(`!document.querySelector("dialog")`, "no question before a pause")
	b.push(".commands", "Run")
	b.says(".pagehead .badge", "running")
	b.visit("#/task/flaky", "flaky")
	b.says(".life .now", "no such host")
	b.says(".life .next", "attempt 2")
	b.visit("#/tasks?error=no+such", "Tasks")
	b.sees(`document.querySelectorAll(".gridbody .row").length === 1 && document.querySelector(".gridbody .row").dataset.id === "flaky"`, "the task with the error")
	b.says(".c-why", "no such host")
	b.visit("#/tasks", "Tasks")
	b.runs(`document.querySelector("[data-list]").focus()`)
	b.press("j", "x")
	b.says(".bulkbar", "1 task selected")
	b.fill("[data-filter]", "no-task-has-this")
	b.says(".bulkbar", "0 tasks selected")
	b.says(".bulkbar", "and 1 that the filter hides, which is left alone")
	b.sees(`[...document.querySelectorAll(".bulkbar .button")].some((e) => e.textContent.startsWith("Kill") && e.getAttribute("aria-disabled") === "true")`, "nothing to be killed")
	b.push(".empty", "Show all")
	b.says(".bulkbar", "1 task selected")
	b.push(".bulkbar", "Select none")
	b.fill(".tag-text", "team=mail, east")
	b.press(kb.Enter)
	b.sees(`document.querySelectorAll(".gridbody .row").length === 1 && location.hash === "#/tasks?tag=team%3Dmail%2C+east"`, "the one task with the tag")
	b.runs(`document.querySelector("[data-list]").focus()`)
	b.press("a")
	b.push(".bulkbar", "Delete")
	b.says("dialog", "nothing is kept")
	b.push("dialog", "Delete 1 task")
	b.says("dialog", "are deleted")
	b.push("dialog", "Close")
	b.says(".empty", "No task matches")
}

// followsKeys goes through the pages by keys alone.
func (b *browser) followsKeys() {
	b.Helper()
	for key, title := range map[string]string{"o": "Overview", "n": "Nodes", "r": "Trees", "e": "Elections"} {
		b.press("g", key)
		b.says("h1", title)
	}
	b.press("?")
	b.says("dialog", "select all that are shown")
	b.press(kb.Escape)
	b.sees(`!document.querySelector("dialog")`, "the help is closed")
	b.press("g", "t")
	b.says("h1", "Tasks")
	b.press("j")
	b.sees(`document.activeElement.matches("[data-list]")`, "the list has the focus")
	b.press("j", "j", "k")
	b.sees(`document.querySelectorAll(".row.active").length === 1 && document.activeElement.getAttribute("aria-activedescendant") === document.querySelector(".row.active").id`, "an active row")
	b.press("x")
	b.says(".bulkbar", "1 task selected")
	b.press(kb.Escape)
	b.sees(`!document.querySelector(".bulkbar")`, "none is selected")
	id := value[string](b, `document.querySelector(".row.active").dataset.id`)
	b.press(kb.Enter)
	b.says("h1", id)
	b.runs(`document.querySelector(".skip").focus()`)
	b.press(kb.Enter)
	b.sees(`document.activeElement.id === "title"`, "the skip link leads to the heading")
}

// isAccessible checks every page in light and dark, and at the width of a phone.
func (b *browser) isAccessible() {
	b.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.colours(scheme)
		for _, p := range places {
			b.resize(1360, 860)
			b.visit(p.hash, p.title)
			b.settled(p)
			b.accessible(p.name + " " + scheme)
			b.picture(p.name + "-" + scheme)
			b.resize(360, 740)
			b.settled(p)
			b.fits(p.name)
			b.accessible(p.name + " " + scheme + " at 360 pixels")
			b.picture(p.name + "-" + scheme + "-360")
		}
		b.resize(1360, 860)
		b.visit("#/task/steady-0", "steady-0")
		b.push(".commands", "Sleep")
		b.says("dialog", "For how long")
		b.accessible("a dialog " + scheme)
		b.picture("dialog-" + scheme)
		b.push("dialog", "Cancel")
	}
	b.colours("light")
}

// settled waits until a page shows its content.
func (b *browser) settled(p place) {
	b.Helper()
	for name, condition := range map[string]string{
		"task": `document.querySelector(".timeline li")`, "trees": `document.querySelectorAll(".edge.need").length === 2`, "tasks": `document.querySelector(".gridbody .row")`,
		"overview": `document.querySelector(".chart canvas") && document.querySelector(".loads li")`, "elections": `document.querySelector(".line-up")`,
		"node": `document.querySelector(".columns > div > .card + .card")`,
	} {
		if p.name == name {
			b.sees(condition, p.name+" is filled")
		}
	}
}

// losesTheServer stops the dev and checks that the page says so, and keeps its content.
func (b *browser) losesTheServer(w *world, dev *process) {
	b.Helper()
	b.visit("#/tasks", "Tasks")
	b.leaves()
	w.end(dev, syscall.SIGINT)
	b.sees(`["reconnecting", "stale"].includes(document.querySelector(".live").dataset.state)`, "that the server is away")
	b.sees(`/since \d/.test(document.querySelector(".live").textContent)`, "since when")
	b.says("p.stale", "old")
	b.sees(`document.querySelector(".live").dataset.state === "stale"`, "that what it shows is stale")
	b.sees(`document.querySelectorAll(".gridbody .row").length > 0`, "what it knew")
	b.accessible("stale")
	b.picture("stale")
}
