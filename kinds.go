package windlass

import (
	"bytes"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// kind is what a node keeps of the spec of a task. Tasks that were submitted
// alike share one.
type kind struct {
	// spec is without when it was submitted, and its digest.
	spec  Spec
	class *placement.Class
	// err says that the spec cannot be read.
	err error
}

// kinds reads specs, and each that it has seen lately but once.
type kinds struct {
	classes *placement.Classes
	known   map[string]*kind
}

func newKinds() *kinds {
	return &kinds{classes: &placement.Classes{}, known: map[string]*kind{}}
}

// kindsMax bounds the kinds that are remembered.
const kindsMax = 4096

// of reads a spec.
func (ks *kinds) of(value []byte) *kind {
	alike, ok := ownWords(value)
	if ok {
		if k := ks.known[string(alike)]; k != nil {
			return k
		}
	}
	k := &kind{}
	k.spec, k.err = parseSpec(value)
	k.spec.SubmittedAt, k.spec.Digest = time.Time{}, ""
	s := &k.spec
	k.class = ks.classes.Of(placement.Class{
		Type: s.Type, Weight: min(s.Weight, WeightMax), Require: s.Require, Prefer: s.Prefer, Node: s.Node, Group: s.Group,
	})
	if ok {
		if len(ks.known) >= kindsMax {
			clear(ks.known)
		}
		ks.known[string(alike)] = k
	}
	return k
}

// ownWords is a spec without when it was submitted and its digest, which are
// all that tells the specs of most tasks apart; false where they are not the
// last two fields, in the spelling of this package.
func ownWords(value []byte) (alike []byte, ok bool) {
	head, tail, ok := bytes.Cut(value, []byte(`"submitted_at":"`))
	if !ok {
		return value, len(value) == 0
	}
	when, tail, ok := bytes.Cut(tail, []byte(`","digest":"`))
	digest, plain := bytes.CutSuffix(tail, []byte(`"}`))
	return head, ok && plain && !bytes.ContainsAny(when, `"\`) && !bytes.ContainsAny(digest, `"\`)
}

// kindOf is the kind of a task of the mirror.
func (in *incarnation) kindOf(t *mirror.Task) *kind {
	if k, ok := t.Kind.(*kind); ok {
		return k
	}
	return in.kinds.of(nil) // it exists by its properties alone
}

// count keeps the tally of what the other nodes hold; what this node holds it
// knows better itself.
func (in *incarnation) count(t *mirror.Task, by int) {
	if t.Owner != in.config.Name {
		in.tally.Add(t.Owner, in.kindOf(t).class, by)
	}
}

// recount begins the tally anew, because the mirror does.
func (in *incarnation) recount() {
	in.tally = placement.Tally{}
	for _, r := range in.runs {
		if r.counted {
			in.tally.Add(in.config.Name, r.class, 1)
		}
	}
	for _, c := range in.inFlight {
		in.tally.Add(in.config.Name, c.kind.class, 1)
	}
	for _, m := range in.leaving.moving {
		in.tally.Add(m.to, m.class, 1)
	}
}
