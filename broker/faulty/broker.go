package faulty

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

var _ broker.Broker = (*Broker)(nil)

// The causes of errors that are faults.
var (
	errCut       = errors.New("fault: the connection is cut")
	errLost      = errors.New("fault: no answer came")
	errRefused   = errors.New("fault: the call was refused")
	errForbidden = errors.New("fault: the right is missing")
	errBroken    = errors.New("fault: the watch broke")
	errHistory   = errors.New("fault: the history is gone")

	errClosed = errors.New("closed")
)

// Broker is a connection with faults. Its methods are safe for concurrent use.
type Broker struct {
	inner broker.Broker
	late  sync.WaitGroup // requests that are passed on after their call returned

	mu sync.Mutex // never held during a call
	// link ends with Cut and with Close; its cause is errCut or errClosed.
	// Heal makes a new one.
	link    context.Context
	endLink context.CancelCauseFunc
	closed  bool
	frozen  bool
	thawed  chan struct{} // closed and replaced by Thaw

	plan *Plan
	// fitted and struck count, for each rule, the calls that it matched and those that
	// it affected. Invariant: 0 <= struck[i] <= fitted[i].
	fitted, struck []int
}

// Wrap injects the faults of a plan into a broker, which it then owns. A nil plan has
// no faults.
func Wrap(b broker.Broker, plan *Plan) *Broker {
	f := &Broker{inner: b, thawed: make(chan struct{})}
	f.link, f.endLink = context.WithCancelCause(context.Background())
	f.Use(plan)
	return f
}

// Use replaces the plan and restarts the counting of calls. Calls in flight keep their
// faults.
func (b *Broker) Use(plan *Plan) {
	if plan == nil {
		plan = &Plan{}
	}
	if err := plan.validate(); err != nil {
		panic("faulty: " + err.Error())
	}
	rules := slices.Clone(plan.Rules)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan = &Plan{Seed: plan.Seed, Rules: rules}
	b.fitted, b.struck = make([]int, len(rules)), make([]int, len(rules))
}

// Struck returns how many calls each rule of the plan has affected, so that a test can
// check that its fault happened.
func (b *Broker) Struck() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.struck)
}

// Freeze holds every request and every reply, batches of watches included, until Thaw
// or until the call's context ends, like a process or a network that hangs.
func (b *Broker) Freeze() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = true
}

// Thaw ends Freeze, and every Stall so far.
func (b *Broker) Thaw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = false
	close(b.thawed)
	b.thawed = make(chan struct{})
}

// Cut fails every call with ErrUnavailable: new calls as never sent, calls in flight
// with an unknown outcome. Watches end.
func (b *Broker) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endLink(errCut)
}

// Heal ends Cut.
func (b *Broker) Heal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && b.link.Err() != nil {
		b.link, b.endLink = context.WithCancelCause(context.Background())
	}
}

// Close implements broker.Broker. It waits until every late request was passed on, however
// long that takes, because on a network they would arrive as well.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.endLink(errClosed)
	b.link, b.endLink = context.WithCancelCause(context.Background()) // the old one may have been cut
	b.endLink(errClosed)
	b.mu.Unlock()
	b.late.Wait()
	return b.inner.Close()
}

// later passes a request on after some time, when its call has returned.
func (b *Broker) later(ctx context.Context, wait time.Duration, do func(context.Context)) {
	ctx = context.WithoutCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return // Close may be waiting, so none may be added
	}
	b.late.Go(func() {
		<-time.After(wait)
		do(ctx)
	})
}
