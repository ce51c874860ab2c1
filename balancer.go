package windlass

import (
	"time"

	"github.com/windlass-go/windlass/internal/schedule"
)

// Balancer decides which tasks a node claims and which it gives back. It is
// consulted by the node's one loop, so it must not block, and one Balancer
// serves one node. It decides from the node's own copy of the cluster, which
// may lag a little; that costs efficiency, never safety.
//
// In front of it stands the planner of package placement: a node asks its
// balancer about a task when the plan gives it to this node, or when the node
// that it is given to has not claimed it for a while.
type Balancer interface {
	// CanClaim tells whether to claim a task. If not, again is when to ask
	// anew; zero means when the cluster changes, or after a second.
	CanClaim(v *View, c Candidate) (ok bool, again time.Time)
	// Balance returns the IDs of the node's own tasks to release.
	Balance(v *View) []string
}

// Reviewer is a Balancer that also wants to be asked when nothing has changed in
// the cluster, because it goes by something else.
type Reviewer interface {
	Balancer
	// ReviewEvery is how often Balance is called with TriggerReview. Less than a
	// second counts as a second.
	ReviewEvery() time.Duration
}

// Planner is the default balancer: it claims what the plan of package placement
// gives to this node, and releases what the plan moves elsewhere. So nodes have
// their share by weight, labels, capacity and pins are kept, groups are spread,
// and as few tasks move as possible.
type Planner struct{}

var _ Balancer = Planner{}

// CanClaim implements Balancer.
func (Planner) CanClaim(*View, Candidate) (bool, time.Time) { return true, time.Time{} }

// Balance implements Balancer.
func (Planner) Balance(v *View) []string { return v.Planned() }

// View is the cluster as a balancer sees it.
type View struct {
	// Now is the time at which it was taken.
	Now time.Time
	// Self is this node. Its tasks include those about to be claimed and leave
	// out those about to be released.
	Self NodeLoad
	// Nodes are the other registered nodes that handle a type which this node
	// handles, by name. Only those that are Eligible take tasks.
	Nodes []NodeLoad
	// Unowned is the number of tasks that nobody holds and that could be claimed.
	Unowned int
	// Trigger says why Balance is called.
	Trigger Trigger
	// Running are this node's tasks that could be released, the longest
	// running first. It is set for Balance only.
	Running []RunningTask

	// planned makes what Planned returns.
	planned func() []string
	// share caches Share: claiming moves a task from unowned to this node and
	// leaves the sum, and so the share, as it is.
	share int
}

// NodeLoad is a node with what it holds.
type NodeLoad struct {
	Name string
	// Tasks is the number of tasks it holds, Weight what they weigh together.
	Tasks, Weight int
	// Frozen nodes, draining ones and overloaded ones claim nothing.
	Frozen, Draining, Overloaded bool
}

// Eligible tells whether the node takes tasks.
func (n NodeLoad) Eligible() bool { return !n.Frozen && !n.Draining && !n.Overloaded }

// Candidate is a task that nobody holds.
type Candidate struct {
	// Task as NewTask made it.
	Task Task
	// Spec of the task, without the time at which it was submitted and its
	// digest.
	Spec Spec
	// Waiting is how long this node has known it to be claimable.
	Waiting time.Duration
}

// Trigger is the reason for balancing.
type Trigger uint8

// The triggers.
const (
	// TriggerMembership: a node joined, left, froze or drained.
	TriggerMembership = Trigger(schedule.TriggerMembership)
	// TriggerCommand: someone asked for it.
	TriggerCommand = Trigger(schedule.TriggerCommand)
	// TriggerDrift: tasks came or went, a while ago. Running then has only tasks
	// that have been running for a while.
	TriggerDrift = Trigger(schedule.TriggerDrift)
	// TriggerSettling: nodes joined or left a few seconds ago, and everybody has
	// balanced since. Running then has only tasks that have been running for a
	// moment.
	TriggerSettling = Trigger(schedule.TriggerSettling)
	// TriggerReview: nothing; it is time, see Reviewer.
	TriggerReview = Trigger(schedule.TriggerReview)
)

// Planned are the tasks that the planner would move elsewhere; nil where Balance
// is not called.
func (v *View) Planned() []string {
	if v.planned == nil {
		return nil
	}
	return v.planned()
}

// Share is how many tasks this node should hold so that all eligible nodes hold
// the same number, but for one, with as few tasks as possible moving. Tasks of
// nodes that are not eligible stay out of it.
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

// Average is the number of tasks for each eligible node.
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

// Youngest returns the IDs of the n tasks that have been running for the
// shortest time: those lose the least work by moving.
func (v *View) Youngest(n int) []string {
	var ids []string
	for i := len(v.Running) - 1; i >= 0 && len(ids) < n; i-- {
		ids = append(ids, v.Running[i].ID)
	}
	return ids
}
