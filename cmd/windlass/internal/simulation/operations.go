package simulation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/coordinator"
)

// kind of an operation on the claim of a task.
type kind uint8

const (
	// opClaim was granted a token.
	opClaim kind = iota + 1
	// opHeld read that a token is held.
	opHeld
	// opGone read that the task does not exist, or is another by now.
	opGone
	// opSave wrote a state and kept the claim.
	opSave
	// opRelease gave a claim back, opDone removed its task.
	opRelease
	opDone
	// opFenced was refused because the token is not held.
	opFenced
	// opCreated is the coming of a task, as the event log told.
	opCreated
	// opLost is the end of a claim that no answer told of: its session's, an
	// operator's, or an ending whose answer was lost. opVanished is the same of
	// a task.
	opLost
	opVanished
)

// operation is one of them, between two readings of the operations' counter.
type operation struct {
	kind kind
	// token is the claim's; of opCreated it is the task's own creation, of opGone
	// that of the task that was wanted, zero for any.
	token broker.Revision
	// again tells that an earlier attempt may have been what took effect.
	again     bool
	call, ret int64
}

// operations are everything that was answered, by task. Time stands still while
// things happen, so that a counter orders them.
type operations struct {
	mu      sync.Mutex
	counter int64
	byTask  map[string][]operation
	// seen is what the event log told, in the order of the log.
	seen map[string][]operation
	// marks tell which reading of the counter belongs to which moment.
	marks []mark
}

type mark struct {
	at      time.Time
	counter int64
}

// now is a reading of the counter that nothing else has.
func (o *operations) now() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next()
}

func (o *operations) next() int64 {
	o.counter++
	if t := time.Now(); len(o.marks) == 0 || o.marks[len(o.marks)-1].at.Before(t) {
		o.marks = append(o.marks, mark{t, o.counter})
	}
	return o.counter
}

// since is the reading of the counter at a moment that has passed.
func (o *operations) since(at time.Time) int64 {
	i, _ := slices.BinarySearchFunc(o.marks, at, func(m mark, at time.Time) int { return m.at.Compare(at) })
	if i == 0 {
		return 0
	}
	return o.marks[i-1].counter
}

func (o *operations) add(id string, op operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op.ret == 0 {
		op.ret = o.next()
	}
	if o.byTask == nil {
		o.byTask = map[string][]operation{}
	}
	o.byTask[id] = append(o.byTask[id], op)
}

// seenLate bounds how long after it happened a change is seen by its watch.
const seenLate = time.Second

// observer adds what the event log tells. What answers explain as well is taken
// out again by decide.
func (o *operations) observer() *history.Observer {
	seen := func(id string, k kind, token broker.Revision) {
		o.mu.Lock()
		defer o.mu.Unlock()
		op := operation{kind: k, token: token, call: o.since(time.Now().Add(-seenLate)), ret: o.next()}
		if o.seen == nil {
			o.seen = map[string][]operation{}
		}
		o.seen[id] = append(o.seen[id], op)
	}
	return &history.Observer{
		Created:  func(id string, at broker.Revision) { seen(id, opCreated, at) },
		Vanished: func(id string, owner broker.Revision) { seen(id, opVanished, owner) },
		Granted:  func(id string, token broker.Revision) { seen(id, opClaim, token) },
		Lost:     func(id string, token broker.Revision) { seen(id, opLost, token) },
	}
}

// decide adds what was seen and no answer tells of.
func (o *operations) decide() {
	for id, seen := range o.seen {
		answered := o.byTask[id]
		for _, s := range seen {
			if !slices.ContainsFunc(answered, func(op operation) bool { return op.tells(s) }) {
				o.add(id, s)
			}
		}
	}
	o.seen = nil
}

// tells reports whether an answer explains what was seen.
func (op operation) tells(seen operation) bool {
	if op.token != seen.token || op.again {
		return false
	}
	switch seen.kind {
	case opClaim:
		return op.kind == opClaim
	case opLost:
		return op.kind == opRelease
	case opVanished:
		return op.kind == opDone
	}
	return false
}

// witness is a coordinator that keeps what it was asked and answered.
type witness struct {
	coordinator.Coordinator
	ops *operations
	log *history.Log
}

// Claim implements coordinator.Coordinator.
func (w *witness) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	call := w.ops.now()
	results := w.Coordinator.Claim(ctx, wanted)
	for i, r := range results {
		w.answered(wanted[i].ID, r, opClaim, wanted[i].Created, call)
	}
	return results
}

// Adopt implements coordinator.Coordinator.
func (w *witness) Adopt(ctx context.Context, ids []string) []coordinator.Result {
	call := w.ops.now()
	results := w.Coordinator.Adopt(ctx, ids)
	for i, r := range results {
		w.answered(ids[i], r, opHeld, 0, call)
	}
	return results
}

func (w *witness) answered(id string, r coordinator.Result, granted kind, created broker.Revision, call int64) {
	switch {
	case r.Err == nil:
		w.ops.add(id, operation{kind: granted, token: r.Token, call: call})
	case errors.Is(r.Err, coordinator.ErrGone):
		w.ops.add(id, operation{kind: opGone, token: created, call: call})
	}
}

// End implements coordinator.Coordinator.
func (w *witness) End(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
	for _, e := range endings {
		if e.Kind == coordinator.Release || e.Kind == coordinator.Done {
			w.log.Ending(e.ID, e.Token)
		}
	}
	call := w.ops.now()
	results := w.Coordinator.End(ctx, endings)
	for i, r := range results {
		e := endings[i]
		op := operation{token: e.Token, again: e.Again, call: call}
		switch {
		case r.Err == nil:
			op.kind = map[coordinator.Kind]kind{
				coordinator.Save: opSave, coordinator.Release: opRelease, coordinator.Done: opDone,
				coordinator.Checkpoint: opHeld, coordinator.Discard: opHeld,
			}[e.Kind]
			if r.Requeued {
				op.kind = opRelease // the task is there, and nobody holds it
			}
		case errors.Is(r.Err, coordinator.ErrFenced):
			op.kind = opFenced
		case errors.Is(r.Err, coordinator.ErrStateChanged), errors.Is(r.Err, coordinator.ErrSuperseded):
			op.kind = opHeld
		default:
			continue // if it took effect, the event log tells
		}
		w.ops.add(e.ID, op)
	}
	return results
}
