package balancer

import (
	"math"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
)

// AcceptAll claims everything and releases nothing, so the first node to start gets the
// most.
type AcceptAll struct{}

var _ windlass.Balancer = AcceptAll{}

// CanClaim implements windlass.Balancer.
func (AcceptAll) CanClaim(*windlass.View, windlass.Candidate) (bool, time.Time) {
	return true, time.Time{}
}

// Balance implements windlass.Balancer.
func (AcceptAll) Balance(*windlass.View) []string { return nil }

// ThresholdDefault is the default of Fair.Threshold: a fifth above the average, as in
// Metafora.
const ThresholdDefault = 1.2

// Fair keeps a node near the average number of tasks. It claims up to its share. Once
// it has more than Threshold times the average, it releases down to its share, the
// youngest tasks first. Unlike Metafora's, it also does so if some node has less than
// the average divided by Threshold, because a node that joins many others would
// otherwise stay empty. It never sleeps in the node's loop.
//
// It counts tasks and ignores which node may run which. A task that it released and
// that came back is left alone for a time that doubles. Otherwise a node that can take
// no more would keep the tasks of the others moving. One Fair serves one node.
type Fair struct {
	// Threshold is a factor on the average. Zero means ThresholdDefault; less than 1
	// counts as 1.
	Threshold float64

	// moved has the tasks that it released.
	moved moves
}

var _ windlass.Balancer = (*Fair)(nil)

// A node that has its share leaves a task to others for patience, and checks again
// every step, because shares grow while tasks are being submitted.
const (
	patience = 2 * time.Second
	step     = 250 * time.Millisecond
)

// CanClaim implements windlass.Balancer.
func (f *Fair) CanClaim(v *windlass.View, c windlass.Candidate) (bool, time.Time) {
	if v.Self.Tasks < v.Share() || c.Waiting >= patience {
		return true, time.Time{}
	}
	return false, v.Now.Add(min(patience-c.Waiting, step))
}

// Balance implements windlass.Balancer.
func (f *Fair) Balance(v *windlass.View) []string { return f.release(v, v.Self.Tasks) }

// release picks the youngest tasks above this node's share, at most limit.
func (f *Fair) release(v *windlass.View, limit int) []string {
	if v.Trigger == events.TriggerMembership || v.Trigger == events.TriggerCommand {
		f.moved.forget()
	}
	uneven := v.Self.Tasks > 1 && f.uneven(v)
	if f.moved.observe(v.Now, uneven); !uneven {
		return nil
	}
	return f.moved.youngest(v.Running, v.Now, min(v.Self.Tasks-v.Share(), limit))
}

func (f *Fair) uneven(v *windlass.View) bool {
	threshold := max(f.Threshold, 1)
	if f.Threshold == 0 {
		threshold = ThresholdDefault
	}
	average := v.Average()
	if float64(v.Self.Tasks) > math.Ceil(average*threshold) {
		return true
	}
	for _, n := range v.Nodes {
		if n.Eligible() && float64(n.Tasks) < math.Floor(average/threshold) {
			return true
		}
	}
	return false
}
