package windlass

import (
	"time"

	"github.com/windlass-go/windlass/placement"
)

// Balancer decides which tasks a node claims and which it gives back. It is
// consulted by the node's one loop, so it must not block, and one Balancer
// serves one node. It decides from the node's own copy of the cluster, which
// may lag a little; that costs efficiency, never safety.
type Balancer interface {
	// CanClaim tells whether to claim a task. If not, again is when to ask
	// anew; zero means when the cluster changes, or after a second.
	CanClaim(v *View, c Candidate) (ok bool, again time.Time)
	// Balance returns the IDs of the node's own tasks to release.
	Balance(v *View) []string
}

// View is the cluster as a balancer sees it.
type View struct {
	// Now is the time at which it was taken.
	Now time.Time
	// Self is this node. Its tasks include those about to be claimed and leave
	// out those about to be released.
	Self NodeLoad
	// Nodes are the other nodes that are registered, by name. Only those that
	// are Eligible take tasks.
	Nodes []NodeLoad
	// Unowned is the number of tasks that nobody holds.
	Unowned int
	// Trigger says why Balance is called.
	Trigger Trigger
	// Running are this node's tasks that could be released, the longest
	// running first. It is set for Balance only.
	Running []RunningTask

	// share caches Share: claiming moves a task from unowned to this node and
	// leaves the sum, and so the share, as it is.
	share int
}

// NodeLoad is a node with what it holds.
type NodeLoad struct {
	Name string
	// Tasks is the number of tasks it holds.
	Tasks int
	// Frozen nodes and draining ones claim nothing.
	Frozen, Draining bool
}

// Eligible tells whether the node takes tasks.
func (n NodeLoad) Eligible() bool { return !n.Frozen && !n.Draining }

// Candidate is a task that nobody holds.
type Candidate struct {
	// Task as NewTask made it.
	Task Task
	// Spec of the task.
	Spec Spec
	// Waiting is how long this node has known it to be claimable.
	Waiting time.Duration
}

// Trigger is the reason for balancing.
type Trigger uint8

// The triggers.
const (
	// TriggerMembership: a node joined, left, froze or drained.
	TriggerMembership Trigger = iota + 1
	// TriggerCommand: someone asked for it.
	TriggerCommand
	// TriggerDrift: tasks came or went, a while ago. Running then has only tasks
	// that have been running for a while.
	TriggerDrift
)

// Share is how many tasks this node should hold so that all eligible nodes hold
// the same number, but for one, with as few tasks as possible moving. Tasks of
// nodes that are not eligible stay out of it.
func (v *View) Share() int {
	if v.share > 0 {
		return v.share
	}
	loads := make([]placement.Load, 0, len(v.Nodes)+1)
	loads = append(loads, placement.Load{Node: v.Self.Name, Tasks: v.Self.Tasks})
	for _, n := range v.Nodes {
		if n.Eligible() {
			loads = append(loads, placement.Load{Node: n.Name, Tasks: n.Tasks})
		}
	}
	v.share = placement.Shares(loads, v.Unowned)[0]
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

// even is the default balancer: the same number of tasks on every node, but
// for one.
type even struct{}

// driftTolerance is how far above the average a node may be before tasks move
// only because others came or went. It keeps finite tasks from being moved
// towards the end of their lives, when counts differ for an instant.
const driftTolerance = 1.1

// CanClaim implements Balancer.
func (even) CanClaim(v *View, c Candidate) (bool, time.Time) {
	if v.Self.Tasks < v.Share() || c.Waiting >= patience {
		return true, time.Time{}
	}
	// Soon, because shares grow while tasks are being submitted.
	return false, v.Now.Add(min(patience-c.Waiting, rankStep))
}

// Balance implements Balancer.
func (even) Balance(v *View) []string {
	if v.Trigger == TriggerDrift && float64(v.Self.Tasks) <= v.Average()*driftTolerance+1 {
		return nil
	}
	return v.Youngest(v.Self.Tasks - v.Share())
}
