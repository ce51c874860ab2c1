package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// logins are those of a client with a password. The stock client logs in for each stream
// that it opens, watches and renewals of leases among them (client 3.7.3,
// streamClientInterceptor), and the server takes some 50 ms of a processor for each and
// tells all members. Here streams have the token of the last login until it is refused.
type logins struct {
	clientv3.Auth
	// turn is held by who logs in.
	turn chan struct{}
	// last is what the last login was answered, nil for none that is still good. It is
	// guarded by turn.
	last *clientv3.AuthenticateResponse
}

// streamKey marks the contexts of streams.
type streamKey struct{}

// forStream marks the context of a stream.
func forStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, streamKey{}, true)
}

// shareLogins has the streams of a client share its logins.
func shareLogins(client *clientv3.Client) *logins {
	l := &logins{Auth: client.Auth, turn: make(chan struct{}, 1)}
	client.Auth = l
	return l
}

// Authenticate implements clientv3.Auth. Other requests than streams log in because
// their token was refused.
func (l *logins) Authenticate(ctx context.Context, name, password string) (*clientv3.AuthenticateResponse, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.last != nil && ctx.Value(streamKey{}) != nil {
		return l.last, nil
	}
	answer, err := l.Auth.Authenticate(ctx, name, password)
	if err == nil {
		l.last = answer
	}
	return answer, err
}

// refused forgets the login if an error of a stream says that its token is not good any
// more, and tells whether it did.
func (l *logins) refused(ctx context.Context, err error) bool {
	if l == nil {
		return false
	}
	if text := rpctypes.ErrorDesc(err); text != rpctypes.ErrorDesc(rpctypes.ErrGRPCInvalidAuthToken) &&
		text != rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthOldRevision) {
		return false
	}
	select {
	case l.turn <- struct{}{}:
		l.last = nil
		<-l.turn
	case <-ctx.Done():
	}
	return true
}
