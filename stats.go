package windlass

import (
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
)

// Stats describes a node's condition in numbers. Reading them makes no call to the
// broker and takes little time, so they can be read at any time.
type Stats struct {
	// Joined is true if the node is registered.
	Joined bool
	// Margin is the time left until handlers are told to stop unless the session is
	// renewed; zero if the node has not joined.
	Margin time.Duration
	// Held counts the tasks that this node holds, by StatusRunning, StatusSleeping,
	// StatusPaused and StatusFault.
	Held map[Status]int
	// Known is true if the node knows the tasks of the namespace. TasksHeld and
	// TasksUnheld then count the tasks that some node holds and those that no node
	// holds, in its copy.
	Known                  bool
	TasksHeld, TasksUnheld int
}

// fleetCount counts all tasks that a node knows.
type fleetCount struct{ held, unheld int }

// statesShown is the number of states to count.
const statesShown = 8

// statusOf maps codedStates to the status of a held task. A task that is being ended
// still counts as running for others.
var statusOf = [statesShown]Status{
	StatusFault, StatusRunning, StatusSleeping, StatusPaused, StatusFault, StatusRunning, StatusRunning, StatusRunning,
}

// Stats returns the node's current numbers.
func (n *Node) Stats() Stats {
	s := Stats{Held: map[Status]int{StatusRunning: 0, StatusSleeping: 0, StatusPaused: 0, StatusFault: 0}}
	if live := n.live.Load(); live != nil && live.Context().Err() == nil {
		s.Joined, s.Margin = true, live.Remaining()
	}
	if f := n.fleet.Load(); f != nil {
		s.Known, s.TasksHeld, s.TasksUnheld = true, f.held, f.unheld
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for code, count := range n.states {
		s.Held[statusOf[code]] += count
	}
	return s
}

// uncount removes a task's published state from the counts; the caller holds the lock.
func (n *Node) uncount(id string) {
	if shown := n.held[id]; shown != nil {
		n.states[shown.published.state]--
	}
}

// countFleet publishes the numbers of tasks for Stats.
func (in *incarnation) countFleet() {
	sums := in.tasks.Sums()
	next := fleetCount{held: sums.Owned, unheld: sums.Unowned}
	if now := in.node.fleet.Load(); now == nil || *now != next {
		in.node.fleet.Store(&next)
	}
}

// count keeps the tally of what the other nodes hold, including tasks on their way from
// one node to another. What this node holds it counts from its own runs.
func (in *incarnation) count(t *mirror.Task, by int) {
	node := t.Owner
	if node == in.config.Name {
		return
	}
	if t.For != "" {
		node = t.For
	}
	in.fleet.Hold(node, in.kinds.OfTask(t).Class, by)
}

// recount starts the tally again, because the mirror does.
func (in *incarnation) recount() {
	in.fleet.Recount()
	for _, r := range in.runs {
		if r.counted {
			in.fleet.Hold(in.config.Name, r.class(), 1)
		}
	}
	in.board.Recount()
	in.giving.Recount()
}
