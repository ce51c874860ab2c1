package windlass

import "time"

// Stats are how a node is doing, in numbers. Nothing of it takes a call to the
// broker, and little of it a moment: it can be asked for at any time.
type Stats struct {
	// Joined tells that the node is registered.
	Joined bool
	// Margin is the time left until handlers are told to stop unless the session is
	// renewed; zero where the node has not joined.
	Margin time.Duration
	// Held counts the tasks that this node holds, by StatusRunning,
	// StatusSleeping, StatusPaused and StatusFault.
	Held map[Status]int
	// Known tells that the node knows the tasks of the namespace; then TasksHeld
	// and TasksUnheld count those that some node holds and those that none does,
	// as its copy has them.
	Known                  bool
	TasksHeld, TasksUnheld int
}

// fleetCount is what a node knows of all tasks.
type fleetCount struct{ held, unheld int }

// statesShown is how many states there are to count.
const statesShown = 8

// statusOf are the statuses of codedStates, for those that are held. What is being
// ended is still running for others.
var statusOf = [statesShown]Status{
	StatusFault, StatusRunning, StatusSleeping, StatusPaused, StatusFault, StatusRunning, StatusRunning, StatusRunning,
}

// Stats tells how the node is doing.
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

// uncount takes what is shown of a task off the counts; the caller has the lock.
func (n *Node) uncount(id string) {
	if shown := n.held[id]; shown != nil {
		n.states[shown.face.state]--
	}
}

// countFleet shows how many tasks there are.
func (in *incarnation) countFleet() {
	sums := in.tasks.Sums()
	next := fleetCount{held: sums.Owned, unheld: sums.Unowned}
	if now := in.node.fleet.Load(); now == nil || *now != next {
		in.node.fleet.Store(&next)
	}
}
