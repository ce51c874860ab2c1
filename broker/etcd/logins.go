package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// logins are those of a client with a password. The stock client logs in for each stream
// that it opens, watches and renewals of leases among them (client 3.7.3,
// streamClientInterceptor), and the server takes some 50 ms of a processor for each and
// tells all members. Here streams have the token of the last login until it is refused.
type logins struct {
	clientv3.Auth
	// last is what the last login was answered, nil for none that is still good.
	last atomic.Pointer[clientv3.AuthenticateResponse]
	// turn is held by the stream that logs in, for timeout at most: others wait for its
	// token.
	turn    chan struct{}
	timeout time.Duration
}

// errLoginSilent is no deadline of the stream's own.
var errLoginSilent = errors.New("no answer to a login")

// streamKey marks the contexts of streams.
type streamKey struct{}

// forStream marks the context of a stream.
func forStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, true)
}

// shareLogins has the streams of a client share its logins.
func shareLogins(client *clientv3.Client, timeout time.Duration) *logins {
	l := &logins{Auth: client.Auth, turn: make(chan struct{}, 1), timeout: timeout}
	client.Auth = l
	return l
}

// Authenticate implements clientv3.Auth. Other requests than streams log in because
// their token was refused; they wait for nobody.
func (l *logins) Authenticate(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	if ctx.Value(streamKey{}) == nil {
		return l.login(ctx, name, password)
	}
	if last := l.last.Load(); last != nil {
		return last, nil
	}
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	answer, err := l.loginInTurn(bounded, name, password)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = errLoginSilent
	}
	return answer, err
}

func (l *logins) loginInTurn(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if last := l.last.Load(); last != nil { // by now
		return last, nil
	}
	return l.login(ctx, name, password)
}

func (l *logins) login(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	answer, err := l.Auth.Authenticate(ctx, name, password)
	if err == nil {
		l.last.Store(answer)
	}
	return answer, err
}

// refused forgets the login if an error of a stream says that its token is not good any
// more, and tells whether it did.
func (l *logins) refused(err error) bool {
	if l == nil {
		return false
	}
	switch rpctypes.ErrorDesc(err) {
	case rpctypes.ErrorDesc(rpctypes.ErrGRPCInvalidAuthToken), rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision):
		l.last.Store(nil)
		return true
	}
	return false
}
