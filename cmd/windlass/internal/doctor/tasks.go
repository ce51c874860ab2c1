package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
)

// overdueAfter is how long ago a task was submitted that should have been claimed
// by now, unless many were submitted together.
const overdueAfter = time.Minute

// claimable tells whether only a node is missing for a task to be claimed.
func (s *snapshot) claimable(t *task, now time.Time) bool {
	return s.idle(t) && !t.spec.NotBefore.After(now) && len(s.blocking(t)) == 0
}

// idle tells of a task that should run at some time and that nobody holds.
func (s *snapshot) idle(t *task) bool {
	return t.exists() && t.owner == nil && t.readable() && !t.ended()
}

// blocking are the blockers of a task that exist, or have failed.
func (s *snapshot) blocking(t *task) []string {
	var blocking []string
	for _, id := range t.blockers() {
		if b := s.tasks[id]; b != nil && (b.key != nil || b.failed != nil) {
			blocking = append(blocking, id)
		}
	}
	return blocking
}

// takers counts the nodes that handle a type, and those of them that claim. A
// registration without a session is nobody's.
func (s *snapshot) takers(taskType string) (handle, claim int) {
	for _, n := range s.nodes {
		if n.info == nil || n.info.session == 0 || n.corrupt != nil || !n.handles(taskType) {
			continue
		}
		handle++
		if !n.infos.Frozen && !n.infos.Draining {
			claim++
		}
	}
	return handle, claim
}

// waits tells of a task that some node should have claimed by now.
func (s *snapshot) waits(t *task, now time.Time) bool {
	if !s.claimable(t, now) || now.Sub(t.spec.SubmittedAt) < overdueAfter || now.Sub(t.spec.NotBefore) < overdueAfter {
		return false
	}
	_, claim := s.takers(t.spec.Type)
	return claim > 0
}

// stillWaits tells that the first look found a task as it is now.
func (s *snapshot) stillWaits(now *task, at time.Time) bool {
	was := s.tasks[now.id]
	return was != nil && same(was.key, now.key) && same(was.props, now.props) && same(was.state, now.state) && s.waits(was, at)
}

func same(a, b *place) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.modified == b.modified
}

func (s *snapshot) checkTasks(before *snapshot, now time.Time) Check {
	var n notes
	live, held := 0, 0
	chains := chains{snapshot: s, now: now, cause: map[string]string{}, under: map[string]bool{}, circular: map[string]bool{}}
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		if !t.exists() {
			continue
		}
		live++
		if t.owner != nil {
			held++
			continue
		}
		if !s.idle(t) {
			continue // told with the values or the duplicates
		}
		if !s.claimable(t, now) {
			if cause := chains.of(id); cause != "" && !chains.circular[id] {
				n.add(Problem, "task(s) that wait for what cannot run", "see to what they wait for: run it again, delete or forget it", id+" "+cause)
			}
			continue
		}
		s.noteClaimable(&n, before, t, now)
	}
	for _, cycle := range chains.cycles {
		n.add(Problem, "cycle(s) of tasks that wait for each other", "delete one of them, or submit it again with other needs", strings.Join(cycle, " → "))
	}
	return n.check(CheckTasks, fmt.Sprintf("%d live, %d of them held; none is stuck", live, held))
}

func (s *snapshot) noteClaimable(n *notes, before *snapshot, t *task, now time.Time) {
	handle, claim := s.takers(t.spec.Type)
	switch {
	case handle == 0 && len(s.registered()) == 0:
		n.add(Problem, "task(s) that wait, and no node is registered", "start a node", t.id)
	case handle == 0:
		n.add(Problem, fmt.Sprintf("task(s) of type %q, which no registered node handles", t.spec.Type),
			"start a node that handles it, or delete them", t.id)
	case claim == 0:
		n.add(Warning, fmt.Sprintf("task(s) of type %q, and the nodes that handle it are frozen or draining", t.spec.Type),
			`"windlass node unfreeze" takes a node back`, t.id)
	case s.waits(t, now) && before.stillWaits(t, now):
		n.add(Warning, "task(s) that no node claims, although some handle the type",
			`look for "left to other nodes" and "unreadable value" in the nodes' logs, and at their balancers`, t.id)
	}
}

// chains finds what keeps a blocked task from ever running.
type chains struct {
	snapshot *snapshot
	now      time.Time
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
	t := c.snapshot.tasks[id]
	if c.under[id] {
		c.noteCycle(id)
		return "waits for itself"
	}
	c.under[id] = true
	defer delete(c.under, id)
	cause := ""
	switch {
	case t != nil && t.key == nil && t.failed != nil:
		cause = "failed or was killed"
	case t == nil || !t.exists() || t.owner != nil:
	case t.ended():
		cause = fmt.Sprintf("is %s and still there", t.now.State)
	case !t.readable():
		cause = "cannot be read"
	default:
		for _, blocker := range c.snapshot.blocking(t) {
			if deeper := c.of(blocker); deeper != "" {
				first, _, _ := strings.Cut(deeper, ", which ")
				cause = fmt.Sprintf("waits for %s, which %s", blocker, first)
				break
			}
		}
		if handle, _ := c.snapshot.takers(t.spec.Type); cause == "" && handle == 0 && c.snapshot.claimable(t, c.now) {
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
		if t := c.snapshot.tasks[id]; t != nil && c.snapshot.idle(t) {
			return c.snapshot.blocking(t)
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
func (s *snapshot) checkValues(space keys.Space) Check {
	var n notes
	const mend = "mend or delete the key; windlass leaves it alone"
	for _, id := range slices.Sorted(maps.Keys(s.tasks)) {
		t := s.tasks[id]
		for _, kind := range slices.Sorted(maps.Keys(t.corrupt)) {
			err := t.corrupt[kind]
			example := fmt.Sprintf("%s: %v", taskKey(space, kind, id), err)
			switch {
			case errors.Is(err, errNewer):
				n.add(Problem, "state(s) that this version does not know", "use a newer version of windlass", example)
			case kind == keys.Claim || kind == keys.TaskCommand:
				n.add(Warning, "value(s) that cannot be read and that nothing depends on", mend, example)
			default:
				n.add(Problem, "value(s) of tasks that cannot be read", mend, example)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		node := s.nodes[name]
		if node.info != nil && node.corrupt != nil {
			n.add(Problem, "registration(s) that cannot be read", "restart the node", fmt.Sprintf("%s: %v", space.NodeInfo(name), node.corrupt))
		}
		for _, id := range slices.Sorted(maps.Keys(node.garbled)) {
			n.add(Warning, "command(s) to nodes that cannot be read", "nothing: the node discards them", fmt.Sprintf("%s: %v", space.NodeCommand(name, id), node.garbled[id]))
		}
	}
	return n.check(CheckValues, fmt.Sprintf("%d, all of them readable", s.known))
}

func taskKey(space keys.Space, kind keys.Kind, id string) string {
	switch kind {
	case keys.Props:
		return space.Props(id)
	case keys.Owner:
		return space.Owner(id)
	case keys.Claim:
		return space.Claim(id)
	case keys.State:
		return space.State(id)
	case keys.TaskCommand:
		return space.TaskCommand(id)
	}
	return space.Task(id)
}
