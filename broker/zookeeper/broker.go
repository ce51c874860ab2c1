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
	// settled is set once layout is as stored in the chroot. Open sets it, before
	// anything else runs.
	settled bool
	address string
	// start is the origin of the clock given to connections.
	start time.Duration

	// life ends with Close, under mu.
	life context.Context
	end  context.CancelFunc
	// tasks are the goroutines, calls the calls in flight.
	tasks, calls sync.WaitGroup

	// seen is the last transaction seen on any connection. A server that is behind
	// it is not used.
	seen atomic.Int64
	// setBack is the latest rollback of the ensemble, nil if there was none.
	setBack atomic.Pointer[setBackError]
	// leastTimeout is the session timeout that a server granted although a shorter one
	// was requested, in nanoseconds; zero if no server did.
	leastTimeout atomic.Int64
	// server counts the attempts to connect, so that each goes to the next server.
	server atomic.Uint32

	slots slots
	// dirs are the directories known to exist. If one no longer does, a transaction
	// fails for lack of a parent, and all are forgotten.
	dirs pathSet
	// emptied are directories that lost a child. Every broker deletes those that it sees,
	// when nobody waits for it, and the first one wins.
	emptied pathSet

	mu sync.Mutex // guards the fields below
	// link is the connection in use, nil while there is none; then down is the reason.
	link *link
	down error
	// changed is closed when link changes.
	changed  chan struct{}
	sessions map[broker.SessionID]*session
}

var _ broker.Broker = (*Broker)(nil)

// Open connects to an ensemble. It returns when a server has answered and knows its
// leader, or with an error that names the addresses and the error of the last attempt.
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
	until, _ := bounded.Deadline()
	l, err := b.openLink(bounded)
	for err != nil && broker.Temporary(classify(err)) && pause.For(bounded, dialPause) {
		next, why := b.openLink(bounded)
		if why == nil || time.Now().Before(until) { // an earlier error says more than the timeout
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
	b.tasks.Go(b.endSilent)
	return b, nil
}

// Address returns a name for the ensemble.
func (b *Broker) Address() string { return b.address }

// now is the clock of connections and sessions. Go's own clock stops while the machine is
// suspended, so a session would seem to have more time left than it has.
func (b *Broker) now() time.Duration { return clock.Boot() - b.start }

// Close implements broker.Broker. When it returns, nothing that the broker started
// is running.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.end()
	b.mu.Unlock()
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

// enter registers a call, which ends with leave. The context ends with the broker, too.
func (b *Broker) enter(ctx context.Context, op, key string) (entered context.Context, leave func(), _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life.Err() != nil {
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
