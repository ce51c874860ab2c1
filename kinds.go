package windlass

import (
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// taskKind is what is kept of the specs that are alike.
type taskKind = kind.Kind[Spec]

// readKind reads a spec, without when it was submitted, its digest and its trace.
func readKind(value []byte) (Spec, placement.Class, kind.Facts) {
	s, err := parseSpec(value)
	s.SubmittedAt, s.Digest, s.Trace = time.Time{}, "", ""
	return s, placement.Class{
		Type: s.Type, Weight: min(s.Weight, WeightMax), Require: s.Require, Prefer: s.Prefer, Node: s.Node, Group: s.Group,
	}, kind.Facts{Priority: s.Priority, NotBefore: s.NotBefore, Turn: broker.Revision(s.Turn), Needs: s.Needs, Err: err}
}

// origin is what tells the specs of most tasks apart.
type origin struct {
	submittedAt time.Time
	digest      string
	trace       string
}

// originOf reads the rest of a spec that a kind was made of.
func originOf(value []byte) origin {
	if o, ok := kind.OriginOf(value); ok {
		if at, err := time.Parse(time.RFC3339Nano, string(o.SubmittedAt)); err == nil {
			return origin{submittedAt: at, digest: string(o.Digest), trace: string(o.Trace)}
		}
	}
	spec, err := parseSpec(value)
	if err != nil {
		return origin{} // its kind says so
	}
	return origin{submittedAt: spec.SubmittedAt, digest: spec.Digest, trace: spec.Trace}
}

// count keeps the tally of what the other nodes hold, and of what is on its way
// from one of them to another; what this node holds it knows better itself.
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

// recount begins the tally anew, because the mirror does.
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
