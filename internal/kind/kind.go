// Package kind reads the specs of tasks, keeps once what tasks have in common that were
// submitted alike, and says of each task whether it could be claimed and whose turn it is.
package kind

import (
	"bytes"
	"cmp"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// Facts are what a spec says about when a task may be claimed, and in which order.
type Facts struct {
	// Class is the one of this content: equal ones are one pointer.
	Class     *placement.Class
	Priority  int
	NotBefore time.Time
	// Turn is the revision that stands for the one at which the task came to exist, if it
	// is the later one: its place among others of its priority.
	Turn broker.Revision
	// Needs are the tasks that must not exist any more.
	Needs []string
	// Err says that the spec cannot be read.
	Err error
}

// Kind is what is kept of a spec of type S. Tasks that were submitted alike share one.
type Kind[S any] struct {
	// Spec is what was read, but for what it shares with no other.
	Spec S
	Facts
}

// Kinds reads specs, and each that it has seen lately but once. It is safe for concurrent
// use.
type Kinds[S any] struct {
	read    func(spec []byte) (S, placement.Class, Facts)
	mu      sync.Mutex // the follower of the tasks reads listings while the loop goes on
	classes placement.Classes
	known   map[string]*Kind[S]
}

// knownMax bounds the kinds that are remembered.
const knownMax = 4096

// New returns kinds without any. read reads a spec, of which nothing may be kept that
// Origin has.
func New[S any](read func(spec []byte) (S, placement.Class, Facts)) *Kinds[S] {
	return &Kinds[S]{read: read, known: map[string]*Kind[S]{}}
}

// Of reads a spec.
func (ks *Kinds[S]) Of(spec []byte) *Kind[S] {
	alike, _, ok := split(spec)
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if ok {
		if k := ks.known[string(alike)]; k != nil {
			return k
		}
	}
	s, class, facts := ks.read(spec)
	facts.Class = ks.classes.Of(class)
	k := &Kind[S]{Spec: s, Facts: facts}
	if ok {
		if len(ks.known) >= knownMax {
			clear(ks.known)
		}
		ks.known[string(alike)] = k
	}
	return k
}

// OfTask is the kind of a task of a copy that keeps kinds.
func (ks *Kinds[S]) OfTask(t *mirror.Task) *Kind[S] {
	if k, ok := t.Kind.(*Kind[S]); ok {
		return k
	}
	return ks.Of(nil) // it exists by its properties alone
}

// Place is where a task stands among those that could be claimed.
type Place struct {
	Priority int
	Turn     broker.Revision
	ID       string
}

// Place is that of a task which came to exist at a revision.
func (f *Facts) Place(id string, created broker.Revision) Place {
	return Place{Priority: f.Priority, Turn: max(created, f.Turn), ID: id}
}

// Compare is negative if p comes before q: the most important first, then the oldest.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(q.Priority, p.Priority), cmp.Compare(p.Turn, q.Turn), cmp.Compare(p.ID, q.ID))
}

// Origin is what tells the specs of most tasks apart, as text.
type Origin struct{ SubmittedAt, Digest, Trace []byte }

// OriginOf cuts what a spec shares with no other out of it. It returns false where that is
// not as Windlass spells it; then the spec has to be read for it.
func OriginOf(spec []byte) (o Origin, ok bool) {
	alike, o, ok := split(spec)
	return o, ok && !bytes.Contains(alike, []byte(`"trace":`)) // others may have put it elsewhere
}

// split cuts a spec into what it shares with others and what it does not; false where the
// latter are not its last fields, in the spelling of Windlass.
func split(spec []byte) (alike []byte, o Origin, ok bool) {
	alike, tail, ok := bytes.Cut(spec, []byte(`"submitted_at":"`))
	if !ok {
		return spec, Origin{}, len(spec) == 0
	}
	o.SubmittedAt, tail, ok = bytes.Cut(tail, []byte(`","digest":"`))
	tail, plain := bytes.CutSuffix(tail, []byte(`"}`))
	o.Digest, o.Trace, _ = bytes.Cut(tail, []byte(`","trace":"`))
	for _, word := range [...][]byte{o.SubmittedAt, o.Digest, o.Trace} {
		plain = plain && !bytes.ContainsAny(word, `"\`)
	}
	return alike, o, ok && plain
}
