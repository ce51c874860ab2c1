package etcd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
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
	// secure is true with TLS.
	secure  bool
	defrag  func() error
	onClose func()
	// logins is nil without a password.
	logins *logins

	// life ends with Close, under mu; its cause is that of CloseCause or ErrClosed.
	life context.Context
	end  context.CancelCauseFunc

	// mu guards sessions and observed, and prevents that calls grows while Close waits.
	mu sync.Mutex
	// calls are the requests in flight, watches not included, and the observers.
	calls sync.WaitGroup
	// sessions are those that this connection renews, and observed their folders, each of
	// which has an observer.
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
	// Txns, Watches and Leases replace those of the client's connection. A client of a
	// server in this process has no connection. Its own watcher does not work inside a
	// testing/synctest bubble, because it waits on a channel made outside of it.
	Txns    pb.KVClient
	Watches pb.WatchClient
	Leases  pb.LeaseClient
	// Defragment replaces the client's, for a server in this process, where the client's
	// own panics (etcd 3.7.3).
	Defragment func() error
	// OnClose, if set, is called once, at the end of the first Close.
	OnClose func()
	// tls is true if endpoints without a scheme use TLS.
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
		timeout: cmp.Or(options.RequestTimeout, RequestTimeoutDefault),
		address: cmp.Or(options.Address, strings.Join(client.Endpoints(), ",")),
		secure:  slices.ContainsFunc(client.Endpoints(), func(endpoint string) bool { return endpointSecure(endpoint, options.tls) }),
		defrag:  options.Defragment,
		onClose: options.OnClose,

		sessions: map[broker.SessionID]held{},
		observed: map[string]bool{},
	}
	if b.txns == nil {
		b.txns = pb.NewKVClient(client.ActiveConnection())
	}
	if b.watches == nil {
		// Each watch has a stream of its own. The client's watcher puts all watches on
		// one, where a slow one delays the others, buffers without limit, and reconnects
		// silently.
		b.watches = pb.NewWatchClient(client.ActiveConnection())
	}
	if b.leases == nil {
		b.leases = pb.NewLeaseClient(client.ActiveConnection())
	}
	if client.Username != "" {
		b.logins = shareLogins(client, b.timeout)
	}
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
	first := b.life.Err() == nil
	b.end(cmp.Or(cause, broker.ErrClosed))
	b.mu.Unlock()
	b.calls.Wait()
	if !first {
		return nil
	}
	if b.onClose != nil {
		defer b.onClose()
	}
	if err := b.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return b.failure("close", "", err)
	}
	return nil
}

// closedError returns the error of a call once the broker is closed.
func (b *Broker) closedError(op, key string) *broker.Error {
	cause := context.Cause(b.life)
	if cause == broker.ErrClosed {
		cause = nil
	}
	return broker.NewError(op, key, broker.ErrClosed, cause)
}

// enter registers a call, which ends with leave. The context ends with the broker, too.
func (b *Broker) enter(ctx context.Context, op, key string) (entered context.Context, leave func(), _ error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life.Err() != nil {
		return nil, nil, b.closedError(op, key)
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

// leaderPause is the time between two attempts while there is no leader. An
// election takes one to two seconds.
const leaderPause = 50 * time.Millisecond

// call makes one request within its timeout. A request that a member refused because it
// knows no leader is repeated: it was not passed on, so it cannot have been applied.
func (b *Broker) call(ctx context.Context, op, key string, request func(context.Context) error) error {
	ctx, leave, err := b.enter(ctx, op, key)
	if err != nil {
		return err
	}
	defer leave()
	ctx = context.WithValue(ctx, askedKey{}, &asked{})
	bounded, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
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
