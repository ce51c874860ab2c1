// Package kind parses the specs of tasks and shares the common data of tasks that were
// submitted alike. It determines whether a task could be claimed and whose turn it is.
package kind

import (
	"bytes"
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// Facts are the parts of a spec that decide when a task may be claimed, and in which
// order.
type Facts struct {
	// Class is the shared class of this content: equal classes are one pointer.
	Class     *placement.Class
	Priority  int
	NotBefore time.Time
	// Turn is a revision that replaces the one at which the task was created, if it is
	// later. It decides the task's place among others of its priority.
	Turn broker.Revision
	// Needs lists the tasks that must not exist any more.
	Needs []string
	// Err is set if the spec cannot be parsed.
	Err error
}

// Kind is the stored form of a spec of type S. Tasks that were submitted alike share
// one.
type Kind[S any] struct {
	// Spec is the parsed spec without the fields of Origin.
	Spec S
	Facts
}

// Kinds parses specs, and specs that differ only in their Origin once. It is safe for
// concurrent use.
type Kinds[S any] struct {
	read    func(spec []byte) (S, placement.Class, Facts)
	mu      sync.Mutex // the follower of the tasks parses listings while the loop runs
	classes placement.Classes
	known   map[string]*Kind[S]
}

// knownMax limits the kinds that are remembered.
const knownMax = 4096

// New returns an empty Kinds. read parses a spec; its result must not keep the fields
// of Origin.
func New[S any](read func(spec []byte) (S, placement.Class, Facts)) *Kinds[S] {
	return &Kinds[S]{read: read, known: map[string]*Kind[S]{}}
}

// Of returns the kind of a spec.
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

// OfTask returns the kind of a task in a copy that keeps kinds.
func (ks *Kinds[S]) OfTask(t *mirror.Task) *Kind[S] {
	if k, ok := t.Kind.(*Kind[S]); ok {
		return k
	}
	return ks.Of(nil) // it has only properties
}

// Place is a task's place among those that could be claimed.
type Place struct {
	Priority int
	Turn     broker.Revision
	ID       string
}

// Place returns the place of a task that was created at a revision.
func (f *Facts) Place(id string, created broker.Revision) Place {
	return Place{Priority: f.Priority, Turn: max(created, f.Turn), ID: id}
}

// Compare returns a negative number if p comes before q: the highest priority first,
// then the oldest.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(q.Priority, p.Priority), cmp.Compare(p.Turn, q.Turn), cmp.Compare(p.ID, q.ID))
}

// Origin has the fields in which most specs differ, as text, and Tags as JSON; nil for
// none.
type Origin struct{ SubmittedAt, Digest, Trace, By, Tags []byte }

// OriginOf extracts from a spec the fields that it shares with no other. It returns
// false if they are not encoded as Windlass does; the whole spec must then be parsed.
func OriginOf(spec []byte) (o Origin, ok bool) {
	alike, o, ok := split(spec)
	for _, name := range []string{`"trace":`, `"by":`, `"tags":`} {
		ok = ok && !bytes.Contains(alike, []byte(name)) // another encoder may have put it elsewhere
	}
	return o, ok
}

// split separates a spec into the shared part and its origin. It returns false if the
// origin is not its last fields, as Windlass encodes them.
func split(spec []byte) (alike []byte, o Origin, ok bool) {
	alike, tail, ok := bytes.Cut(spec, []byte(`"submitted_at":"`))
	if !ok {
		return spec, Origin{}, len(spec) == 0
	}
	o.SubmittedAt, tail, ok = bytes.Cut(tail, []byte(`","digest":"`))
	tail, plain := bytes.CutSuffix(tail, []byte("}"))
	tail, tags, tagged := bytes.Cut(tail, []byte(`,"tags":`))
	if tagged {
		o.Tags, plain = tags, plain && json.Valid(tags) // and nothing comes after them
	}
	tail, quoted := bytes.CutSuffix(tail, []byte(`"`))
	plain = plain && quoted
	tail, o.By, _ = bytes.Cut(tail, []byte(`","by":"`))
	o.Digest, o.Trace, _ = bytes.Cut(tail, []byte(`","trace":"`))
	for _, word := range [...][]byte{o.SubmittedAt, o.Digest, o.Trace, o.By} {
		plain = plain && !bytes.ContainsAny(word, `"\`)
	}
	return alike, o, ok && plain
}
