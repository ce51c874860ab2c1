package balancer

import (
	"math"
	"time"

	"github.com/windlass-go/windlass"
)

// AcceptAll claims everything and releases nothing, so the node that is first
// has the most.
type AcceptAll struct{}

var _ windlass.Balancer = AcceptAll{}

// CanClaim implements windlass.Balancer.
func (AcceptAll) CanClaim(*windlass.View, windlass.Candidate) (bool, time.Time) {
	return true, time.Time{}
}

// Balance implements windlass.Balancer.
func (AcceptAll) Balance(*windlass.View) []string { return nil }

// ThresholdDefault is how far above the average a node of the Fair balancer may
// be: a fifth, as in Metafora.
const ThresholdDefault = 1.2

// Fair keeps a node near the average number of tasks. It claims up to its share
// and releases down to it, the youngest tasks first, once it has more than
// Threshold times the average. Unlike Metafora's it also does so when some node
// has less than the average divided by Threshold, or else a node that joins many
// others would stay empty, and it never sleeps in the node's loop.
type Fair struct {
	// Threshold is a factor on the average. Zero means ThresholdDefault; less
	// than 1 counts as 1.
	Threshold float64
}

var _ windlass.Balancer = (*Fair)(nil)

// A node that has its share leaves a task to others for as long as patience,
// and asks itself again every step, because shares grow while tasks are being
// submitted.
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
func (f *Fair) Balance(v *windlass.View) []string {
	if v.Self.Tasks < 2 || !f.uneven(v) {
		return nil
	}
	return v.Youngest(v.Self.Tasks - v.Share())
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
