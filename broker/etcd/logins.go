package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// logins are the logins of a client with a password. The stock client logs in for each
// stream that it opens, which includes watches and renewals of leases (client 3.7.3,
// streamClientInterceptor). Each login takes some 50 ms of a processor and a transaction of
// the cluster. Here streams use the token of the last login until it is refused.
type logins struct {
	clientv3.Auth
	// last is the answer to the last login, nil if there is no valid token.
	last atomic.Pointer[clientv3.AuthenticateResponse]
	// turn is held by the stream that logs in, for at most timeout; others wait for its
	// token.
	turn    chan struct{}
	timeout time.Duration
}

// errLoginSilent is not context.DeadlineExceeded, because the stream's own deadline has not
// passed.
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

// Authenticate implements clientv3.Auth. Requests other than streams log in only after
// their token was refused, and do not wait for others.
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
	if last := l.last.Load(); last != nil { // another stream has logged in
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

// refused forgets the login and returns true if an error of a stream says that its token is
// no longer valid.
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
