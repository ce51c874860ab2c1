package outbox

import (
	"context"
	"time"
)

// Begin runs a call elsewhere, and brings the function that it returns back to the goroutine of the lanes.
type Begin func(call func() (then func()))

// Row is a lane with what sends what is due in it: everything that is ready goes in the next call, and nothing waits for a
// batch to fill.
type Row struct {
	// Lane is the lane, whatever it carries.
	Lane interface {
		Wake() time.Time
		Calls() int
	}
	// Send begins the calls that are due.
	Send func(ctx context.Context, now time.Time)
}

// NewRow returns the row of a lane with at most batch values in a call and so many calls at once. call returns a function
// that handles its answer.
func NewRow[K comparable, V any](l *Lane[K, V], batch, calls int, begin Begin, call func(ctx context.Context, keys []K, values []V) (then func())) Row {
	l.BatchMax, l.CallsMax = batch, calls
	return Row{l, func(ctx context.Context, now time.Time) {
		for c, ok := l.Take(now); ok; c, ok = l.Take(now) {
			l.Begin(c, begin, func() func() { return call(ctx, c.Keys, c.Values) })
		}
	}}
}

// Begin begins a call that was taken from the lane, and ends it once its answer is back.
func (l *Lane[K, V]) Begin(c Call[K, V], begin Begin, call func() (then func())) {
	begin(func() func() {
		then := call()
		return func() { l.Done(c); then() }
	})
}

// After returns the row with something to be done each time before it is sent.
func (r Row) After(prepare func(now time.Time)) Row {
	send := r.Send
	r.Send = func(ctx context.Context, now time.Time) {
		prepare(now)
		send(ctx, now)
	}
	return r
}
