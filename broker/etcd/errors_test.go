package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
)

// TestErrorsKeepTheirMeaning is the table of what etcd says and what it means.
// Each error is tried as the client returns it and as the server sends it.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	cases := []struct {
		err     error
		kind    error
		refused bool
	}{
		{rpctypes.ErrGRPCCompacted, broker.ErrCompacted, true},
		{rpctypes.ErrGRPCLeaseNotFound, broker.ErrSessionExpired, true},
		{rpctypes.ErrGRPCNoSpace, broker.ErrNoSpace, false},
		{rpctypes.ErrGRPCRequestTooLarge, broker.ErrTooLarge, true},
		{rpctypes.ErrGRPCTooManyOps, broker.ErrTooLarge, true},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max (3 vs. 2)"), broker.ErrTooLarge, true},
		{status.Error(codes.ResourceExhausted, "grpc: received message larger than max (3 vs. 2)"), broker.ErrTooLarge, true},
		{rpctypes.ErrGRPCPermissionDenied, broker.ErrPermission, true},
		{rpctypes.ErrGRPCInvalidAuthToken, broker.ErrPermission, true},
		{rpctypes.ErrGRPCAuthFailed, broker.ErrPermission, true},
		{rpctypes.ErrGRPCUserEmpty, broker.ErrPermission, true},
		{rpctypes.ErrGRPCAuthOldRevision, broker.ErrPermission, true},
		{status.Error(codes.Unauthenticated, "who are you"), broker.ErrPermission, true},
		{status.Error(codes.PermissionDenied, "go away"), broker.ErrPermission, true},
		{rpctypes.ErrGRPCDuplicateKey, broker.ErrInvalid, true},
		{rpctypes.ErrGRPCLeaseTTLTooLarge, broker.ErrInvalid, true},
		{status.Error(codes.InvalidArgument, "no sense"), broker.ErrInvalid, true},
		{rpctypes.ErrGRPCNoLeader, broker.ErrNoQuorum, true},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, broker.ErrNoQuorum, false},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, broker.ErrNoQuorum, false},
		{rpctypes.ErrGRPCUnhealthy, broker.ErrNoQuorum, false},
		{rpctypes.ErrGRPCTimeout, broker.ErrUnavailable, false},
		{rpctypes.ErrGRPCTimeoutWaitAppliedIndex, broker.ErrUnavailable, false},
		{rpctypes.ErrGRPCLeaderChanged, broker.ErrUnavailable, false},
		{rpctypes.ErrGRPCStopped, broker.ErrUnavailable, false},
		{rpctypes.ErrGRPCRequestTooManyRequests, broker.ErrUnavailable, true},
		{rpctypes.ErrGRPCCorrupt, broker.ErrUnavailable, true},
		{status.Error(codes.Unavailable, "there is no address available"), broker.ErrUnavailable, true},
		{status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp"`), broker.ErrUnavailable, true},
		{status.Error(codes.Unavailable, "error reading from server: EOF"), broker.ErrUnavailable, false},
		{status.Error(codes.Unavailable, "transport is closing"), broker.ErrUnavailable, false},
		{status.Error(codes.Internal, "stream terminated by RST_STREAM"), broker.ErrUnavailable, false},
		{context.DeadlineExceeded, broker.ErrUnavailable, false},
		{context.Canceled, broker.ErrUnavailable, false},
		{errors.New("something new"), broker.ErrUnavailable, false},
	}
	for _, c := range cases {
		for _, err := range []error{c.err, rpctypes.Error(c.err), fmt.Errorf("wrapped: %w", rpctypes.Error(c.err))} {
			if kind, refused := classify(err); kind != c.kind || refused != c.refused {
				t.Errorf("%v (%T): %v, refused %t; it means %v, refused %t", err, err, kind, refused, c.kind, c.refused)
			}
		}
	}
}

func TestAnErrorSaysWhoEndedTheCall(t *testing.T) {
	newBroker := func() *Broker {
		return New(clientv3.NewCtxClient(t.Context()), Options{Address: "somewhere"})
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	reset := status.Error(codes.Unavailable, "connection reset")

	t.Run("the caller", func(t *testing.T) {
		err := newBroker().requestFailure(canceled, "commit", "/a", reset)
		if !errors.Is(err, broker.ErrUnavailable) || !errors.Is(err, context.Canceled) || !err.Maybe {
			t.Errorf("%v", err)
		}
	})
	t.Run("the time", func(t *testing.T) {
		err := newBroker().requestFailure(t.Context(), "commit", "/a", status.Error(codes.DeadlineExceeded, "late"))
		want := "commit /a: broker unavailable: no answer from somewhere within 5s: context deadline exceeded (the outcome is unknown)"
		if err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	})
	t.Run("this process", func(t *testing.T) {
		b := newBroker()
		if err := b.CloseCause(errors.New("the store has stopped")); err != nil {
			t.Fatal(err)
		}
		err := b.requestFailure(t.Context(), "commit", "/a", reset)
		if !errors.Is(err, broker.ErrClosed) || !err.Maybe || errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%v", err)
		}
		if _, err := b.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrClosed) || broker.MaybeApplied(err) {
			t.Errorf("a later call: %v", err)
		}
	})
	t.Run("a refusal stays one when the caller has left", func(t *testing.T) {
		err := newBroker().requestFailure(canceled, "commit", "/a", rpctypes.ErrLeaseNotFound)
		if !errors.Is(err, broker.ErrSessionExpired) || err.Maybe {
			t.Errorf("%v", err)
		}
	})
}
