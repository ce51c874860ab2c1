package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
)

// overdueAfter is the time in which a new task should be claimed, unless many were submitted
// together.
const overdueAfter = time.Minute

// claimable reports whether a node could claim the task.
func (s *snapshot) claimable(t *mirror.Task, now time.Time) bool {
	return s.idle(t) && !s.spec(t).NotBefore.After(now) && len(s.blocking(t)) == 0
}

// idle reports whether the task has yet to run and nobody holds it.
func (s *snapshot) idle(t *mirror.Task) bool {
	return t.Exists() && !t.Owned() && s.readable(t) && !s.ended(t)
}

// blocking returns the blockers of a task that exist, or have failed. In the place of a
// need of all below a job it has those below it.
func (s *snapshot) blocking(t *mirror.Task) (blocking []string) {
	for _, need := range depend.Blockers(t.ID, s.spec(t).Needs) {
		if !kind.Blocks(need, s.tasks) {
			continue
		}
		if job, all := depend.Tree(need); all {
			blocking = append(blocking, s.below(job)...)
		} else {
			blocking = append(blocking, need)
		}
	}
	return blocking
}

// below returns the tasks below a job that block those that need them, what has failed
// first.
func (s *snapshot) below(job string) []string {
	below := s.tasks.FailedBelow(job)
	failed := len(below)
	for t := range s.tasks.All() {
		if depend.IsBelow(t.ID, job) && t.HasKey && t.Failed == mirror.NotFailed {
			below = append(below, t.ID)
		}
	}
	slices.Sort(below[failed:])
	return below
}

// takers counts the nodes that handle a type, and those of them that claim. A registration
// without a session has no node.
func (s *snapshot) takers(taskType string) (handle, claim int) {
	for _, n := range s.nodes {
		if n.session == 0 || n.err != nil || !n.handles(taskType) {
			continue
		}
		handle++
		if !n.info.Frozen && !n.info.Cordoned && !n.info.Draining && !s.renewals.Overdue(n.session, time.Now()) {
			claim++
		}
	}
	return handle, claim
}

// waits reports whether a node should have claimed the task by now.
func (s *snapshot) waits(t *mirror.Task, now time.Time) bool {
	spec := s.spec(t)
	if !s.claimable(t, now) || s.awaited(t.Last, now) || now.Sub(spec.SubmittedAt) < overdueAfter || now.Sub(spec.NotBefore) < overdueAfter {
		return false
	}
	_, claim := s.takers(spec.Type)
	return claim > 0
}

// waited reports whether this look found the task waiting, and it has not changed since.
func (s *snapshot) waited(now *snapshot, id string, at time.Time) bool {
	changed := slices.ContainsFunc([]string{s.space.Task(id), s.space.Props(id), s.space.State(id)}, func(key string) bool {
		return s.get(key).Modified != now.get(key).Modified
	})
	return !changed && s.waits(s.tasks.Get(id), at)
}

func (s *snapshot) checkTasks(before *snapshot, groups []inspect.Spread, now time.Time) []Check {
	var n notes
	held, kept, young := 0, 0, 0
	chains := chains{snapshot: s, now: now, cause: map[string]string{}, under: map[string]bool{}, circular: map[string]bool{}}
	tasks := s.live()
	for _, t := range tasks {
		switch {
		case t.Owned():
			held++
		case !s.idle(t): // checkValues or checkDuplicates reports it
		case s.claimable(t, now) && s.awaited(t.Last, now):
			kept++
		case s.claimable(t, now):
			if s.noteClaimable(&n, before, t, now); !s.waits(t, now) {
				young++
			}
		default:
			if cause := chains.of(t.ID); cause != "" && !chains.circular[t.ID] {
				n.add(Problem, "task(s) that wait for what cannot run", "see to what they wait for: run it again, delete or forget it", t.ID+" "+cause)
			}
		}
	}
	for _, cycle := range chains.cycles {
		n.add(Problem, "cycle(s) of tasks that wait for each other", "delete one of them with --unblock, or submit it again with other needs", strings.Join(cycle, " → "))
	}
	for _, name := range slices.Sorted(maps.Keys(s.paused)) {
		n.add(Warning, "type(s) that are paused: none of their tasks runs", `"windlass type list" has the reason, and "windlass type resume" runs them again`, fmt.Sprintf("%q", name))
	}
	noteGroups(&n, groups)
	healthy := fmt.Sprintf("%d live, %d of them held", len(tasks), held)
	if kept > 0 {
		healthy += fmt.Sprintf(", %d kept for nodes that are to be back", kept)
	}
	healthy += "; none is stuck"
	if young > 0 {
		healthy += fmt.Sprintf(", but %d may not have waited for long enough to tell", young)
	}
	return n.checks(CheckTasks, healthy)
}

func (s *snapshot) noteClaimable(n *notes, before *snapshot, t *mirror.Task, now time.Time) {
	if _, paused := s.paused[s.spec(t).Type]; paused {
		return // which is said of the type
	}
	handle, claim := s.takers(s.spec(t).Type)
	switch {
	case handle == 0 && len(s.registered()) == 0:
		n.add(Problem, "task(s) that wait, and no node is registered", "start a node", t.ID)
	case handle == 0:
		n.add(Problem, fmt.Sprintf("task(s) of type %q, which no registered node handles", s.spec(t).Type),
			"start a node that handles it, or delete them", t.ID)
	case claim == 0:
		n.add(Warning, fmt.Sprintf("task(s) of type %q, and the nodes that handle it are frozen, cordoned, draining or not renewed", s.spec(t).Type),
			`"windlass node unfreeze" or "uncordon" takes a node back`, t.ID)
	case s.waits(t, now) && before.waited(s, t.ID, now):
		n.add(Warning, "task(s) that no node claims, although some handle the type",
			`"windlass task explain" says for each node why not, such as a label or room that it lacks; then look for "left to other nodes" and "unreadable value" in the nodes' logs, and at their balancers`, t.ID)
	}
}

// chains finds out why blocked tasks can never run.
type chains struct {
	*snapshot
	now time.Time
	// cause has the results so far; under are the tasks that of is called for.
	cause map[string]string
	under map[string]bool
	// cycles are those of waiting tasks, circular the tasks on them.
	cycles   [][]string
	circular map[string]bool
}

// of returns why a task never runs if nothing changes, empty if it may run.
func (c *chains) of(id string) string {
	if cause, known := c.cause[id]; known {
		return cause
	}
	t := c.tasks.Remains(id)
	if c.under[id] {
		c.noteCycle(id)
		return "waits for itself"
	}
	c.under[id] = true
	defer delete(c.under, id)
	cause := ""
	switch {
	case t != nil && !t.HasKey && t.Failed != mirror.NotFailed:
		cause = "failed or was killed"
	case t == nil || !t.Exists() || t.Owned():
	case c.ended(t):
		cause = fmt.Sprintf("is %s and still there", c.states[id])
	case !c.readable(t):
		cause = "cannot be read"
	default:
		for _, blocker := range c.blocking(t) {
			if deeper := c.of(blocker); deeper != "" {
				first, _, _ := strings.Cut(deeper, ", which ")
				cause = fmt.Sprintf("waits for %s, which %s", blocker, first)
				break
			}
		}
		if handle, _ := c.takers(c.spec(t).Type); cause == "" && handle == 0 && c.claimable(t, c.now) {
			cause = "is of a type that no node handles"
		}
	}
	c.cause[id] = cause
	return cause
}

func (c *chains) noteCycle(id string) {
	if c.circular[id] {
		return
	}
	cycle := depend.Cycle(id, func(id string) []string {
		if t := c.tasks.Get(id); t != nil && c.idle(t) {
			return c.blocking(t)
		}
		return nil
	})
	for _, each := range cycle {
		c.circular[each] = true
	}
	c.cycles = append(c.cycles, cycle)
}

// checkValues looks for values that cannot be read. Each affects its own task or node only.
func (s *snapshot) checkValues() []Check {
	var n notes
	const mend = "mend or delete the key; windlass leaves it alone"
	for _, k := range s.order {
		err := s.corrupt[k.Key]
		if err == nil {
			continue
		}
		example := fmt.Sprintf("%s: %v", k.Key, err)
		switch {
		case errors.Is(err, errNewer):
			n.add(Problem, "state(s) that this version does not know", "use a newer version of windlass", example)
		case k.Kind == keys.Claim || k.Kind == keys.History || k.Kind == keys.TaskCommand:
			n.add(Warning, "value(s) that cannot be read and that nothing depends on", mend, example)
		case k.Kind == keys.NodeInfo:
			n.add(Problem, "registration(s) that cannot be read", "restart the node", example)
		case k.Kind == keys.NodeCommand:
			n.add(Warning, "command(s) to nodes that cannot be read", "nothing: the node discards them", example)
		default:
			n.add(Problem, "value(s) of tasks that cannot be read", mend, example)
		}
	}
	return n.checks(CheckValues, fmt.Sprintf("%d, all of them readable", len(s.order)))
}
