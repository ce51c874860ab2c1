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
	// opGone read that the task does not exist, or is another one by now.
	opGone
	// opSave wrote a state and kept the claim.
	opSave
	// opRelease released a claim, opDone removed its task.
	opRelease
	opDone
	// opFenced was refused because the token is not held.
	opFenced
	// opCreated is the creation of a task, by the event log.
	opCreated
	// opLost is the end of a claim that no answer reported: its session ended, an
	// operator deleted it, or the answer to the ending was lost. opVanished is the
	// same for a task.
	opLost
	opVanished
)

// operation is an operation between two readings of the operations' counter.
type operation struct {
	kind kind
	// token is the claim's. For opCreated it is the creation of the task, for opGone
	// that of the wanted task, zero for any.
	token broker.Revision
	// again is true if an earlier attempt may have taken effect.
	again     bool
	call, ret int64
}

// operations has all answered operations, by task. A counter orders them, because
// virtual time stands still while things happen.
type operations struct {
	mu      sync.Mutex
	counter int64
	byTask  map[string][]operation
	// seen has the operations in the event log, in its order.
	seen map[string][]operation
	// marks has the readings of the counter at some times.
	marks []mark
}

func newOperations() operations {
	return operations{byTask: map[string][]operation{}, seen: map[string][]operation{}}
}

type mark struct {
	at      time.Time
	counter int64
}

// now returns a new reading of the counter.
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

// since returns the reading of the counter at a past time.
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
	o.byTask[id] = append(o.byTask[id], op)
}

// seenLate limits how late a watch shows a change.
const seenLate = time.Second

// observer records the operations of the event log. decide removes those that an answer
// reports as well.
func (o *operations) observer() *history.Observer {
	seen := func(id string, k kind, token broker.Revision) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen[id] = append(o.seen[id], operation{kind: k, token: token, call: o.since(time.Now().Add(-seenLate)), ret: o.next()})
	}
	return &history.Observer{
		Created:  func(id string, at broker.Revision) { seen(id, opCreated, at) },
		Vanished: func(id string, owner broker.Revision) { seen(id, opVanished, owner) },
		Granted:  func(id string, token broker.Revision) { seen(id, opClaim, token) },
		Lost:     func(id string, token broker.Revision) { seen(id, opLost, token) },
	}
}

// decide adds the operations of the event log that no answer reports.
func (o *operations) decide() {
	for id, seen := range o.seen {
		answered := o.byTask[id]
		for _, s := range seen {
			if !slices.ContainsFunc(answered, func(op operation) bool { return op.tells(s) }) {
				o.add(id, s)
			}
		}
	}
	clear(o.seen)
}

// tells reports whether an answer explains an operation of the event log.
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

// witness is a coordinator that records its requests and answers.
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
				op.kind = opRelease // the task exists, and has no owner
			}
		case errors.Is(r.Err, coordinator.ErrFenced):
			op.kind = opFenced
		case errors.Is(r.Err, coordinator.ErrStateChanged), errors.Is(r.Err, coordinator.ErrSuperseded):
			op.kind = opHeld
		default:
			continue // the event log shows whether it took effect
		}
		w.ops.add(e.ID, op)
	}
	return results
}
