package etcd

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// asked records the member to which the last failed attempt of a request was sent: the
// client's connection chooses one, and errors do not name it.
type asked struct{ address atomic.Pointer[string] }

type askedKey struct{}

// askedAt returns the address of the member to which the request with this context was last
// sent, or of all of them.
func (b *Broker) askedAt(ctx context.Context) string {
	if note, ok := ctx.Value(askedKey{}).(*asked); ok {
		if address := note.address.Load(); address != nil {
			return *address
		}
	}
	return b.address
}

// noteAsked is an interceptor that records the member, if the context has an asked.
func noteAsked(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	note, ok := ctx.Value(askedKey{}).(*asked)
	if !ok {
		return invoke(ctx, method, request, reply, conn, options...)
	}
	var member peer.Peer
	err := invoke(ctx, method, request, reply, conn, append(options[:len(options):len(options)], grpc.Peer(&member))...)
	if err != nil && member.Addr != nil {
		address := member.Addr.String()
		note.address.Store(&address)
	}
	return err
}
