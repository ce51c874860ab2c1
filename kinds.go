package windlass

import (
	"bytes"
	"sync"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// kind is what a node keeps of the spec of a task. Tasks that were submitted
// alike share one.
type kind struct {
	// spec is without when it was submitted, its digest and its trace.
	spec  Spec
	class *placement.Class
	// err says that the spec cannot be read.
	err error
}

// kinds reads specs, and each that it has seen lately but once.
type kinds struct {
	mu      sync.Mutex // the follower of the tasks reads listings while the loop goes on
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
	alike, _, ok := ownWords(value)
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ok {
		if k := ks.known[string(alike)]; k != nil {
			return k
		}
	}
	k := &kind{}
	k.spec, k.err = parseSpec(value)
	k.spec.SubmittedAt, k.spec.Digest, k.spec.Trace = time.Time{}, "", ""
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

// origin is what tells the specs of most tasks apart.
type origin struct {
	submittedAt time.Time
	digest      string
	trace       string
}

// originOf reads the rest of a spec that a kind was made of.
func originOf(value []byte) origin {
	if alike, o, ok := ownWords(value); ok && !bytes.Contains(alike, []byte(`"trace":`)) { // others may have put it elsewhere
		if at, err := time.Parse(time.RFC3339Nano, string(o.when)); err == nil {
			return origin{submittedAt: at, digest: string(o.digest), trace: string(o.trace)}
		}
	}
	spec, err := parseSpec(value)
	if err != nil {
		return origin{} // its kind says so
	}
	return origin{submittedAt: spec.SubmittedAt, digest: spec.Digest, trace: spec.Trace}
}

// own is what a spec shares with no other, as it is spelled; trace is nil for
// none.
type own struct{ when, digest, trace []byte }

// ownWords cuts a spec into what it shares with others and what it does not; false
// where the latter are not its last fields, in the spelling of this package.
func ownWords(value []byte) (alike []byte, o own, ok bool) {
	alike, tail, ok := bytes.Cut(value, []byte(`"submitted_at":"`))
	if !ok {
		return value, own{}, len(value) == 0
	}
	o.when, tail, ok = bytes.Cut(tail, []byte(`","digest":"`))
	tail, plain := bytes.CutSuffix(tail, []byte(`"}`))
	o.digest, o.trace, _ = bytes.Cut(tail, []byte(`","trace":"`))
	for _, word := range [...][]byte{o.when, o.digest, o.trace} {
		plain = plain && !bytes.ContainsAny(word, `"\`)
	}
	return alike, o, ok && plain
}

// kindOf is the kind of a task of the mirror.
func (in *incarnation) kindOf(t *mirror.Task) *kind {
	if k, ok := t.Kind.(*kind); ok {
		return k
	}
	return in.kinds.of(nil) // it exists by its properties alone
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
	in.tally.Add(node, in.kindOf(t).class, by)
}

// recount begins the tally anew, because the mirror does.
func (in *incarnation) recount() {
	in.tally = placement.Tally{}
	for _, r := range in.runs {
		if r.counted {
			in.tally.Add(in.config.Name, r.class(), 1)
		}
	}
	for _, c := range in.inFlight {
		if !c.pulled {
			in.tally.Add(in.config.Name, c.kind.class, 1)
		}
	}
	for _, m := range in.leaving.moving {
		in.tally.Add(m.to, m.class, 1)
	}
}
