package windlass

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/placement"
)

// taskKind is the shared data of specs with equal content.
type taskKind = kind.Kind[Spec]

// readKind parses a spec without its time of submission, its digest, its trace, its
// tags, and who it is by.
func readKind(value []byte) (Spec, placement.Class, kind.Facts) {
	s, err := parseSpec(value)
	s.SubmittedAt, s.Digest, s.Trace, s.By, s.Tags = time.Time{}, "", "", "", nil
	return s, s.Class(), kind.Facts{Priority: s.Priority, NotBefore: s.NotBefore, Turn: broker.Revision(s.Turn), Needs: s.Needs, Err: err}
}

// Class returns what the planner needs to know of the task.
func (s *Spec) Class() placement.Class {
	return placement.Class{
		Type: s.Type, Weight: min(s.Weight, WeightMax), Require: s.Require, Prefer: s.Prefer, Node: s.Node, Group: s.Group,
	}
}

// origin has the fields in which most specs differ.
type origin struct {
	submittedAt time.Time
	digest      string
	trace, by   string
	tags        map[string]string
}

// originOf parses the fields of a spec that its kind leaves out.
func originOf(value []byte) origin {
	if o, ok := kind.OriginOf(value); ok {
		var tags map[string]string
		at, err := time.Parse(time.RFC3339Nano, string(o.SubmittedAt))
		if err == nil && (o.Tags == nil || json.Unmarshal(o.Tags, &tags) == nil) {
			return origin{submittedAt: at, digest: string(o.Digest), trace: string(o.Trace), by: string(o.By), tags: tags}
		}
	}
	spec, err := parseSpec(value)
	if err != nil {
		return origin{} // its kind has the error
	}
	return origin{submittedAt: spec.SubmittedAt, digest: spec.Digest, trace: spec.Trace, by: spec.By, tags: spec.Tags}
}

// detail says in the history of a task who has changed it so that it was claimed for a reason, or submitted it, if it
// is fresh: it may not have run yet.
func (o origin) detail(reason string, fresh bool) string {
	switch {
	case o.by == "":
	case reason == reasonUpdated:
		return ", by " + o.by
	case fresh:
		return ", submitted by " + o.by
	}
	return ""
}
