package zookeeper

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/internal/pause"
)

// Broker is a connection to an ensemble. Its methods are safe for concurrent use.
type Broker struct {
	config Config // with defaults
	acls   []wire.ACL
	layout layout
	// settled tells that layout is what the chroot says. It is set by Open, before
	// anything else runs, and not again.
	settled bool
	address string
	// start is what the clock given to connections counts from.
	start time.Duration

	// life ends with Close.
	life context.Context
	end  context.CancelFunc
	// tasks are the goroutines, calls the calls in flight.
	tasks, calls sync.WaitGroup

	// seen is the last transaction seen on any connection. A server that is behind
	// it is not used.
	seen atomic.Int64
	// setBack tells that the ensemble was set back, the last time that it was; nil if it
	// never was.
	setBack atomic.Pointer[setBackError]
	// leastTimeout is the session timeout that a server granted where less was asked
	// for, in nanoseconds; zero as long as none did.
	leastTimeout atomic.Int64
	// server counts the attempts to connect, so that each goes to the next server.
	server atomic.Uint32

	slots   slots
	dirs    directories
	emptied emptied

	// mu guards what follows.
	mu     sync.Mutex
	closed bool
	// link is the connection in use, nil while there is none; then down says why.
	link *link
	down error
	// changed is closed when link changes.
	changed  chan struct{}
	sessions map[broker.SessionID]*session
}

var _ broker.Broker = (*Broker)(nil)

// Open connects to an ensemble. It returns only when a server has answered and knows
// its leader, or with an error that has the addresses and the error of the last
// attempt.
func Open(ctx context.Context, config Config) (*Broker, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	b := &Broker{
		config: config.withDefaults(), address: strings.Join(config.Servers, ","), start: clock.Boot(),
		changed: make(chan struct{}), sessions: map[broker.SessionID]*session{},
	}
	b.acls, _ = config.acls() // validated
	b.layout = layout{chroot: config.Chroot}
	b.server.Store(rand.Uint32N(uint32(len(config.Servers))))
	b.slots.init()
	b.life, b.end = context.WithCancel(context.Background())
	bounded, cancel := context.WithTimeout(ctx, b.config.DialTimeout)
	defer cancel()
	l, err := b.openLink(bounded, b.dial)
	until, _ := bounded.Deadline()
	for err != nil && broker.Temporary(classify(err)) && pause.For(bounded, dialPause) {
		next, why := b.openLink(bounded, b.dial)
		if why == nil || time.Now().Before(until) { // what the end of the time cuts off says less than what was before
			l, err = next, why
		}
	}
	if err != nil {
		defer b.end()
		return nil, b.openError(ctx, err, b.now())
	}
	b.setLink(l, nil)
	b.tasks.Go(func() { b.keepLinked(l) })
	b.tasks.Go(b.sweep)
	return b, nil
}

// Address returns a name for the ensemble.
func (b *Broker) Address() string { return b.address }

// now is the clock of connections and sessions. Go's own stands still while the machine is
// suspended, and a session would seem to have more time left than it has.
func (b *Broker) now() time.Duration { return clock.Boot() - b.start }

// Close implements broker.Broker. When it returns, nothing that the broker started
// is running.
func (b *Broker) Close() error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if first {
		b.end()
	}
	b.calls.Wait()
	b.tasks.Wait()
	b.mu.Lock()
	all := b.sessions
	b.sessions = nil
	b.mu.Unlock()
	for _, s := range all {
		s.disconnect()
	}
	return nil
}

// enter registers a call. What it returns ends with the broker's life; the caller
// calls leave.
func (b *Broker) enter(ctx context.Context, op, key string) (entered context.Context, leave func(), _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, broker.NewError(op, key, broker.ErrClosed, nil)
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, broker.NewError(op, key, broker.ErrUnavailable, err)
	}
	b.calls.Add(1)
	entered, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.life, cancel)
	return entered, func() {
		stop()
		cancel()
		b.calls.Done()
	}, nil
}
