package windlass

import (
	"time"

	"github.com/windlass-go/windlass/events"
)

// Balancer decides which tasks a node claims and which it gives back. The node's single
// loop calls it, so it must not block, and one Balancer serves one node. It decides
// from the node's own copy of the cluster, which may lag a little; that costs
// efficiency, never safety.
//
// The planner of package placement comes first: a node asks its balancer about a task
// only if the plan assigns the task to this node, or if the assigned node has not
// claimed it for a while.
type Balancer interface {
	// CanClaim reports whether to claim a task. If not, again is when to ask again;
	// zero means when the cluster changes, or after a second.
	CanClaim(v *View, c Candidate) (ok bool, again time.Time)
	// Balance returns the IDs of the node's own tasks to release.
	Balance(v *View) []string
}

// Reviewer is a Balancer that is also called when nothing has changed in the cluster,
// because its decisions depend on something else.
type Reviewer interface {
	Balancer
	// ReviewEvery returns how often Balance is called with TriggerReview. Less than a
	// second counts as a second.
	ReviewEvery() time.Duration
}

// Planner is the default balancer. It claims the tasks that the plan of package
// placement assigns to this node, and releases those that the plan moves elsewhere. So
// nodes have their share by weight; labels, capacity and pins are respected; groups are
// spread; and as few tasks move as possible.
type Planner struct{}

var _ Balancer = Planner{}

// CanClaim implements Balancer.
func (Planner) CanClaim(*View, Candidate) (bool, time.Time) { return true, time.Time{} }

// Balance implements Balancer.
func (Planner) Balance(v *View) []string { return v.Planned() }

// View is the cluster as a balancer sees it.
type View struct {
	// Now is the time at which the view was taken.
	Now time.Time
	// Self is this node. Its tasks include those about to be claimed and exclude those
	// about to be released.
	Self NodeLoad
	// Nodes lists the other registered nodes that handle a type which this node
	// handles, by name. Only those that are Eligible take tasks.
	Nodes []NodeLoad
	// Unowned is the number of tasks that no node holds and that could be claimed.
	Unowned int
	// Trigger is the reason why Balance is called.
	Trigger events.Trigger
	// Running lists this node's tasks that could be released, the longest running
	// first. It is set for Balance only.
	Running []RunningTask

	// planned computes the result of Planned.
	planned func() []string
	// share caches Share: a claim moves a task from unowned to this node and changes
	// neither the sum nor the share.
	share int
}

// NodeLoad is a node and the load it holds.
type NodeLoad struct {
	Name string
	// Tasks is the number of tasks it holds, Weight their total weight.
	Tasks, Weight int
	// A node that is frozen, draining or overloaded claims nothing.
	Frozen, Draining, Overloaded bool
}

// Eligible reports whether the node takes tasks.
func (n NodeLoad) Eligible() bool { return !n.Frozen && !n.Draining && !n.Overloaded }

// Candidate is a task that no node holds.
type Candidate struct {
	// Task is the task that NewTask made.
	Task Task
	// Spec of the task, without the time of its submission and its digest.
	Spec Spec
	// Waiting is how long this node has known the task to be claimable.
	Waiting time.Duration
}

// Planned returns the tasks that the planner would move elsewhere. It is nil except in
// a call of Balance.
func (v *View) Planned() []string {
	if v.planned == nil {
		return nil
	}
	return v.planned()
}

// Share returns how many tasks this node should hold so that the numbers of all
// eligible nodes differ by at most one and as few tasks as possible move. Tasks of
// nodes that are not eligible are left out.
func (v *View) Share() int {
	if v.share > 0 {
		return v.share
	}
	total, nodes, fuller := v.Unowned+v.Self.Tasks, 1, 0
	for _, n := range v.Nodes {
		if !n.Eligible() {
			continue
		}
		total += n.Tasks
		nodes++
		if n.Tasks > v.Self.Tasks || (n.Tasks == v.Self.Tasks && n.Name < v.Self.Name) {
			fuller++
		}
	}
	v.share = total / nodes
	if fuller < total%nodes {
		v.share++ // the larger shares are for those that have more already
	}
	return v.share
}

// Average returns the number of tasks per eligible node.
func (v *View) Average() float64 {
	total, nodes := v.Unowned+v.Self.Tasks, 1
	for _, n := range v.Nodes {
		if n.Eligible() {
			total += n.Tasks
			nodes++
		}
	}
	return float64(total) / float64(nodes)
}

// Youngest returns the IDs of the n tasks that have been running for the shortest time:
// they lose the least work by moving.
func (v *View) Youngest(n int) []string {
	var ids []string
	for i := len(v.Running) - 1; i >= 0 && len(ids) < n; i-- {
		ids = append(ids, v.Running[i].ID)
	}
	return ids
}
