package etcd

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// Broker is a connection to etcd. Its methods are safe for concurrent use.
type Broker struct {
	client  *clientv3.Client
	txns    pb.KVClient
	watches pb.WatchClient
	leases  pb.LeaseClient
	timeout time.Duration
	address string
	// secure is of a connection with TLS.
	secure  bool
	defrag  func() error
	onClose func()
	// logins is nil without a password.
	logins *logins

	// life ends with Close; its cause is what calls in flight report.
	life context.Context
	end  context.CancelCauseFunc

	// mu guards closed, sessions and observed, and that calls is not added to after Close
	// waits on it.
	mu     sync.Mutex
	closed bool
	// calls are the requests in flight, watches not included, and the observers.
	calls sync.WaitGroup
	// sessions are those that this connection renews, and observed the folders that have
	// an observer for them.
	sessions map[broker.SessionID]held
	observed map[string]bool
}

var _ broker.Broker = (*Broker)(nil)

// Options are the options of New. The zero value is for a client that has a connection.
type Options struct {
	// RequestTimeout is as in Config.
	RequestTimeout time.Duration
	// Address names the store in error texts; empty means the client's endpoints.
	Address string
	// Txns, Watches and Leases replace what is opened on the client's connection. A
	// client of a server in this process has no connection. Its own watcher does not
	// work inside a testing/synctest bubble, because it waits on a channel made outside
	// of it.
	Txns    pb.KVClient
	Watches pb.WatchClient
	Leases  pb.LeaseClient
	// Defragment replaces the client's, for a server in this process. There the
	// client's own panics (etcd 3.7.3), because it has nobody to tell that the server
	// is busy.
	Defragment func() error
	// OnClose, if set, is called once, at the end of the first Close.
	OnClose func()
	// tls is whether endpoints without a scheme are reached with it.
	tls bool
}

// New returns a broker of an existing client and owns the client from then on: Close
// closes it too.
func New(client *clientv3.Client, options Options) *Broker {
	b := &Broker{
		client:  client,
		txns:    options.Txns,
		watches: options.Watches,
		leases:  options.Leases,
		timeout: options.RequestTimeout,
		address: options.Address,
		secure:  slices.ContainsFunc(client.Endpoints(), func(endpoint string) bool { return endpointSecure(endpoint, options.tls) }),
		defrag:  options.Defragment,
		onClose: options.OnClose,
	}
	if b.txns == nil {
		b.txns = pb.NewKVClient(client.ActiveConnection())
	}
	if b.watches == nil {
		// Each watch gets a stream of its own. The client's watcher puts all
		// watches on one, where a slow one holds up the others, buffers without
		// bound, and reconnects in silence.
		b.watches = pb.NewWatchClient(client.ActiveConnection())
	}
	if b.leases == nil {
		b.leases = pb.NewLeaseClient(client.ActiveConnection())
	}
	if b.timeout == 0 {
		b.timeout = RequestTimeoutDefault
	}
	if client.Username != "" {
		b.logins = shareLogins(client, b.timeout)
	}
	if b.address == "" {
		b.address = joinEndpoints(client)
	}
	b.sessions, b.observed = map[broker.SessionID]held{}, map[string]bool{}
	b.life, b.end = context.WithCancelCause(context.Background())
	return b
}

// Address returns a name for the store: the endpoints, or the data folder of an
// embedded one.
func (b *Broker) Address() string { return b.address }

// Close implements broker.Broker. When it returns, no request is in flight.
func (b *Broker) Close() error { return b.CloseCause(nil) }

// CloseCause closes the broker; calls in flight, and every later call, return ErrClosed
// with the given cause, which may be nil.
func (b *Broker) CloseCause(cause error) error {
	b.mu.Lock()
	first := !b.closed
	b.closed = true
	b.mu.Unlock()
	if !first {
		b.calls.Wait()
		return nil
	}
	b.end(closedCause{cause})
	b.calls.Wait()
	if b.onClose != nil {
		defer b.onClose()
	}
	if err := b.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return b.failure("close", "", err)
	}
	return nil
}

// closedCause carries the cause of CloseCause through the context, which would
// take a nil one for "canceled".
type closedCause struct{ error }

// Error implements error, for who prints a context's cause.
func (c closedCause) Error() string {
	if c.error == nil {
		return broker.ErrClosed.Error()
	}
	return c.error.Error()
}

// closedError is what a call reports once the broker is closed.
func (b *Broker) closedError(op, key string) *broker.Error {
	e := broker.NewError(op, key, broker.ErrClosed, nil)
	if c, ok := context.Cause(b.life).(closedCause); ok && c.error != nil {
		e.Cause = c.error
	}
	return e
}

// enter registers a request in flight. The caller calls b.calls.Done.
func (b *Broker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.calls.Add(1)
	return true
}

// leaderPause is the time between two attempts while there is no leader. An
// election takes one to two seconds.
const leaderPause = 50 * time.Millisecond

// call makes one request within its time and says what became of it. Requests
// that a member refused because it knows no leader are repeated: none of them
// was passed on, so none can have been applied.
func (b *Broker) call(ctx context.Context, op, key string, request func(context.Context) error) *broker.Error {
	if !b.enter() {
		return b.closedError(op, key)
	}
	defer b.calls.Done()
	if err := ctx.Err(); err != nil {
		return broker.NewError(op, key, broker.ErrUnavailable, err)
	}
	ctx = context.WithValue(ctx, askedKey{}, &asked{})
	bounded, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	leading := clientv3.WithRequireLeader(bounded)
	for {
		err := request(leading)
		if err == nil {
			return nil
		}
		if !isNoLeader(err) || !pause.For(bounded, leaderPause) {
			return b.requestFailure(ctx, op, key, err)
		}
	}
}
