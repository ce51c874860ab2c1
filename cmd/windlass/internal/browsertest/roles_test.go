//go:build e2e && linux

package browsertest

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/windlass-go/windlass/api"
)

// refused selects the enabled buttons that change something.
const refused = `[...document.querySelectorAll("main .commands .button, main .bulkbar .button, main .formfoot .button, dialog footer .primary")]
	.filter((e) => !["Refresh", "Select none", "What would happen?"].includes(e.textContent.trim()) && e.getAttribute("aria-disabled") !== "true").map((e) => e.textContent)`

// offersNothing tries to change something on every page, and checks that it cannot.
func (b *browser) offersNothing(s *stage, why string) {
	b.Helper()
	before := s.changes.Load()
	for _, p := range []place{{"tasks", "#/tasks", "Tasks"}, {"task", "#/task/a", "a"}, {"node", "#/node/n1", "n1"}, {"submit", "#/submit", "Submit a task"}, {"queue", "#/queue", "Queue a job"}} {
		b.visit(p.hash, p.title)
		switch p.name {
		case "tasks":
			b.sees(`document.querySelector(".gridbody .row")`, "the task")
			b.runs(`document.querySelector("[data-list]").focus()`)
			b.press("a")
			b.says(".bulkbar", "1 task selected")
		case "task":
			b.says(".pagehead .badge", "running")
		case "node":
			b.says(".pagehead .badge", "takes tasks")
		case "submit":
			b.fill("#id", "b\r") // Enter, which would send the form
		}
		b.sees(`document.querySelectorAll('main [aria-disabled="true"][title]').length > 0`, "buttons that say why not on "+p.name)
		if open := value[[]string](b, refused); len(open) > 0 {
			b.Errorf("%s offers %q", p.name, open)
		}
		b.says(`main [aria-disabled="true"]`, why)
		b.runs(`document.querySelectorAll('main [aria-disabled="true"]').forEach((e) => e.click())`)
		b.sees(`!document.querySelector("dialog")`, "no dialog on "+p.name)
		b.accessible(p.name + " for who may only look")
	}
	if n := s.changes.Load() - before; n != 0 {
		b.Errorf("%d requests were sent to change something", n)
	}
	b.visit("#/nodes", "Nodes")
	b.push(".pagehead", "What would move?")
	b.fill("#plan-join", "n9")
	b.push(".planner", "Show")
	b.says(".plan", "would move")
}

func TestDashboard_OffersWhatTheRoleAllowsAndSaysWhyNot(t *testing.T) {
	var role atomic.Int64
	role.Store(int64(api.RoleView))
	as := func(c *api.Config) {
		c.Authenticate = func(*http.Request) (api.Caller, bool) {
			return api.Caller{Name: "ann", Role: api.Role(role.Load())}, true
		}
	}
	s := newStage(t, as)
	s.node("n1", "hold")
	s.submit("hold", "a")
	b := open(t, s.address)
	b.says(".tools .role", "view")
	b.offersNothing(s, "This needs the role operate; yours is view.")

	// The role rises; the page hears of it when it is looked at again.
	role.Store(int64(api.RoleOperate))
	b.runs(`document.dispatchEvent(new Event("visibilitychange"))`)
	b.says(".tools .role", "operate")
	b.visit("#/node/n1", "n1")
	b.push(`[data-node="n1"]`, "Drain")
	b.sees(`document.querySelector("#within")`, "the dialog")
	b.fill("#within", "1k")
	b.sees(`document.querySelector("#within").value === "1k" && document.activeElement.id === "within"`, "that letters go into the field")
	b.push("dialog", "Cancel")
	b.visit("#/task/a", "a")
	b.push(".commands", "Pause")
	b.says(".toast", "Pause: done")
	b.says(".pagehead .badge", "paused")

	// It sinks while somebody is about to use it.
	b.push(".commands", "Sleep")
	role.Store(int64(api.RoleView))
	b.push("dialog", "Sleep 1 task")
	b.says("dialog .note", "does not allow")
	b.expects("status of 403")
	b.sees(`document.querySelector("dialog .primary").getAttribute("aria-disabled") === "true"`, "that it is not offered any more")
	b.push("dialog", "Cancel")
	b.says(".tools .role", "view")

	// Another server takes over, on which nobody may change anything.
	role.Store(int64(api.RoleAdmin))
	b.leaves()
	s.play(func(c *api.Config) { as(c); c.ReadOnly = true })
	b.says(".tools .role", "read-only")
	b.isLive()
	b.visit("#/task/a", "a")
	b.sees(`document.querySelectorAll('.commands [aria-disabled="true"]').length === 7`, "that no command is offered")
	b.says(`.commands [aria-disabled="true"]`, "This server is read-only.")
}
