package simulation

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/windlasstest"
)

// prefix of everything in the store that is Windlass's.
const prefix = "/" + windlasstest.Namespace + "/"

// stage is the etcd server that everything runs on. It can be restarted.
type stage struct {
	dir     string
	members members
	// guarded is true if the store has users with passwords.
	guarded bool

	mu sync.Mutex
	// server is nil while it is stopped; generation counts the servers.
	server     *embedded.Server
	generation int
	// listener is for connections with a password, nil if there are none or while the
	// server is stopped; admin is root's connection.
	listener *bufconn.Listener
	admin    guarded
	// outside has the keys outside of the namespace that someone tried to use.
	outside []string
}

// within records the keys of transactions that are outside of the namespace (I11).
func (s *stage) within(txns []broker.Txn) {
	for _, txn := range txns {
		for _, op := range slices.Concat(txn.Then, txn.Else) {
			if !strings.HasPrefix(op.Key, prefix) {
				s.mu.Lock()
				s.outside = append(s.outside, op.Key)
				s.mu.Unlock()
			}
		}
	}
}

func (s *stage) start(ctx context.Context) error {
	config := embedded.Config{Dir: s.dir, UnsafeNoFsync: true, History: time.Hour, Between: s.members.between}
	var listener *bufconn.Listener
	if s.guarded {
		listener = bufconn.Listen(pipeBytes)
		config.Listener = listener
	}
	server, err := embedded.Start(ctx, config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.server, s.listener = server, listener
	s.generation++
	first := s.generation == 1
	s.mu.Unlock()
	if s.guarded && first {
		return s.guard(ctx)
	}
	return nil
}

// close ends the server for good.
func (s *stage) close() error {
	if s.admin.Broker == nil {
		return s.stop()
	}
	return errors.Join(s.admin.Close(), s.stop())
}

// maintained returns a connection with all permissions, nil while the server is stopped.
func (s *stage) maintained() (b *etcd.Broker, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil, nil
	}
	if s.guarded {
		return s.admin.Broker, func() {}
	}
	b = s.server.Broker()
	return b, func() { _ = b.Close() } // nothing is under way
}

// stop ends the server as a crash does: calls in flight have unknown outcomes, and
// sessions have their whole TTL again once it is back.
func (s *stage) stop() error {
	s.mu.Lock()
	server := s.server
	s.server, s.listener = nil, nil
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	return server.Close()
}

// line is a connection that finds the server again after a restart, like one over a
// network.
type line struct {
	stage *stage

	mu         sync.Mutex
	conn       broker.Broker
	generation int
	closed     bool
}

var _ broker.Broker = (*line)(nil)

// errAway is the cause of errors while the server is stopped.
var errAway = errors.New("the server is away")

// to returns a connection to the current server.
func (l *line) to(op string) (broker.Broker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, broker.NewError(op, "", broker.ErrClosed, nil)
	}
	l.stage.mu.Lock()
	defer l.stage.mu.Unlock()
	if l.stage.server == nil {
		return nil, broker.NewError(op, "", broker.ErrUnavailable, errAway)
	}
	if l.generation != l.stage.generation {
		l.conn, l.generation = l.stage.server.Broker(), l.stage.generation
	}
	return l.conn, nil
}

// translate turns the closing of a server into the unavailability that a client sees.
func translate(err error) error {
	var e *broker.Error
	if errors.As(err, &e) && errors.Is(e.Kind, broker.ErrClosed) {
		return &broker.Error{Op: e.Op, Key: e.Key, Kind: broker.ErrUnavailable, Cause: errAway, Maybe: e.Maybe}
	}
	return err
}

// Get implements broker.Broker.
func (l *line) Get(ctx context.Context, key string) (broker.KV, error) {
	b, err := l.to("get")
	if err != nil {
		return broker.KV{}, err
	}
	kv, err := b.Get(ctx, key)
	return kv, translate(err)
}

// List implements broker.Broker.
func (l *line) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		b, err := l.to("list")
		if err != nil {
			yield(broker.Page{}, err)
			return
		}
		for page, err := range b.List(ctx, prefix) {
			if !yield(page, translate(err)) {
				return
			}
		}
	}
}

// Commit implements broker.Broker.
func (l *line) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	l.stage.within(txns)
	b, err := l.to("commit")
	if err != nil {
		return slices.Repeat([]broker.Result{{Err: err}}, len(txns))
	}
	results := b.Commit(ctx, txns...)
	for i := range results {
		results[i].Err = translate(results[i].Err)
	}
	return results
}

// Watch implements broker.Broker.
func (l *line) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		b, err := l.to("watch")
		if err != nil {
			yield(broker.Batch{}, err)
			return
		}
		for batch, err := range b.Watch(ctx, prefix, from) {
			if !yield(batch, translate(err)) {
				return
			}
		}
	}
}

// Grant implements broker.Broker.
func (l *line) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	b, err := l.to("grant")
	if err != nil {
		return broker.Session{}, err
	}
	s, err := b.Grant(ctx, folder, ttl)
	return s, translate(err)
}

// KeepAlive implements broker.Broker.
func (l *line) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	b, err := l.to("keepalive")
	if err != nil {
		return 0, err
	}
	ttl, err := b.KeepAlive(ctx, id)
	return ttl, translate(err)
}

// Revoke implements broker.Broker.
func (l *line) Revoke(ctx context.Context, id broker.SessionID) error {
	b, err := l.to("revoke")
	if err != nil {
		return err
	}
	return translate(b.Revoke(ctx, id))
}

// Close implements broker.Broker.
func (l *line) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn == nil {
		return nil
	}
	return l.conn.Close()
}
