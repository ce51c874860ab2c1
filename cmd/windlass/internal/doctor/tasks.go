package doctor

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
)

// overdueAfter is how long ago a task was submitted that should have been claimed
// by now, unless many were submitted together.
const overdueAfter = time.Minute

// claimable tells whether only a node is missing for a task to be claimed.
func (s *snapshot) claimable(t *mirror.Task, now time.Time) bool {
	return s.idle(t) && !s.spec(t).NotBefore.After(now) && len(s.blocking(t)) == 0
}

// idle tells of a task that should run at some time and that nobody holds.
func (s *snapshot) idle(t *mirror.Task) bool {
	return t.Exists() && !t.Owned() && s.readable(t) && !s.ended(t)
}

// blocking are the blockers of a task that exist, or have failed.
func (s *snapshot) blocking(t *mirror.Task) []string {
	blocking, _ := kind.Waits(depend.Blockers(t.ID, s.spec(t).Needs), s.tasks)
	return blocking
}

// takers counts the nodes that handle a type, and those of them that claim. A
// registration without a session is nobody's.
func (s *snapshot) takers(taskType string) (handle, claim int) {
	for _, n := range s.nodes {
		if n.session == 0 || n.err != nil || !n.handles(taskType) {
			continue
		}
		handle++
		if !n.info.Frozen && !n.info.Draining {
			claim++
		}
	}
	return handle, claim
}

// waits tells of a task that some node should have claimed by now.
func (s *snapshot) waits(t *mirror.Task, now time.Time) bool {
	spec := s.spec(t)
	if !s.claimable(t, now) || now.Sub(spec.SubmittedAt) < overdueAfter || now.Sub(spec.NotBefore) < overdueAfter {
		return false
	}
	_, claim := s.takers(spec.Type)
	return claim > 0
}

// waited tells that this look found a task to wait that is still as it was.
func (s *snapshot) waited(now *snapshot, id string, at time.Time) bool {
	for _, key := range []string{s.space.Task(id), s.space.Props(id), s.space.State(id)} {
		if s.get(key).Modified != now.get(key).Modified {
			return false
		}
	}
	return s.waits(s.tasks.Get(id), at)
}

func (s *snapshot) checkTasks(before *snapshot, now time.Time) Check {
	var n notes
	held := 0
	chains := chains{snapshot: s, now: now, cause: map[string]string{}, under: map[string]bool{}, circular: map[string]bool{}}
	tasks := s.live()
	for _, t := range tasks {
		switch {
		case t.Owned():
			held++
		case !s.idle(t): // told with the values or the duplicates
		case s.claimable(t, now):
			s.noteClaimable(&n, before, t, now)
		default:
			if cause := chains.of(t.ID); cause != "" && !chains.circular[t.ID] {
				n.add(Problem, "task(s) that wait for what cannot run", "see to what they wait for: run it again, delete or forget it", t.ID+" "+cause)
			}
		}
	}
	for _, cycle := range chains.cycles {
		n.add(Problem, "cycle(s) of tasks that wait for each other", "delete one of them, or submit it again with other needs", strings.Join(cycle, " → "))
	}
	return n.check(CheckTasks, fmt.Sprintf("%d live, %d of them held; none is stuck", len(tasks), held))
}

func (s *snapshot) noteClaimable(n *notes, before *snapshot, t *mirror.Task, now time.Time) {
	handle, claim := s.takers(s.spec(t).Type)
	switch {
	case handle == 0 && len(s.registered()) == 0:
		n.add(Problem, "task(s) that wait, and no node is registered", "start a node", t.ID)
	case handle == 0:
		n.add(Problem, fmt.Sprintf("task(s) of type %q, which no registered node handles", s.spec(t).Type),
			"start a node that handles it, or delete them", t.ID)
	case claim == 0:
		n.add(Warning, fmt.Sprintf("task(s) of type %q, and the nodes that handle it are frozen or draining", s.spec(t).Type),
			`"windlass node unfreeze" takes a node back`, t.ID)
	case s.waits(t, now) && before.waited(s, t.ID, now):
		n.add(Warning, "task(s) that no node claims, although some handle the type",
			`look for "left to other nodes" and "unreadable value" in the nodes' logs, and at their balancers`, t.ID)
	}
}

// chains finds what keeps a blocked task from ever running.
type chains struct {
	*snapshot
	now time.Time
	// cause is what was found out; under are the tasks that are being looked at.
	cause map[string]string
	under map[string]bool
	// cycles are the ways from tasks back to themselves, circular the tasks on them.
	cycles   [][]string
	circular map[string]bool
}

// of returns why a task never runs as things are, empty if it may. Tasks wait
// for few others each, but chains can be long.
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

// noteCycle notes the cycle that a task is on, unless it is noted already.
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

// checkValues looks for values that cannot be read. Each costs its own task or
// node only.
func (s *snapshot) checkValues() Check {
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
		case k.Kind == keys.Claim || k.Kind == keys.TaskCommand:
			n.add(Warning, "value(s) that cannot be read and that nothing depends on", mend, example)
		case k.Kind == keys.NodeInfo:
			n.add(Problem, "registration(s) that cannot be read", "restart the node", example)
		case k.Kind == keys.NodeCommand:
			n.add(Warning, "command(s) to nodes that cannot be read", "nothing: the node discards them", example)
		default:
			n.add(Problem, "value(s) of tasks that cannot be read", mend, example)
		}
	}
	return n.check(CheckValues, fmt.Sprintf("%d, all of them readable", len(s.order)))
}
