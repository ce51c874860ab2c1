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

// TestErrorsKeepTheirMeaning tries each error of etcd as the server sends it and as the
// client returns it.
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
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	open, closed := New(clientv3.NewCtxClient(t.Context()), Options{Address: "somewhere"}), New(clientv3.NewCtxClient(t.Context()), Options{})
	if err := closed.CloseCause(errors.New("the store has stopped")); err != nil {
		t.Fatal(err)
	}
	reset := status.Error(codes.Unavailable, "connection reset")
	for _, test := range []struct {
		b    *Broker
		ctx  context.Context
		err  error
		want string
	}{
		{open, canceled, reset, "broker unavailable: context canceled (the outcome is unknown)"},
		{open, t.Context(), status.Error(codes.DeadlineExceeded, "late"),
			"broker unavailable: no answer from somewhere within 5s: context deadline exceeded (the outcome is unknown)"},
		{open, canceled, rpctypes.ErrLeaseNotFound, "session expired: etcdserver: requested lease not found"},
		{closed, t.Context(), reset, "broker closed: the store has stopped (the outcome is unknown)"},
	} {
		if err := test.b.requestFailure(test.ctx, "commit", "/a", test.err); err.Error() != "commit /a: "+test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
	if _, err := broker.CommitOne(canceled, open, then(broker.Put("/a", nil))); !errors.Is(err, broker.ErrUnavailable) || broker.MaybeApplied(err) {
		t.Errorf("a call with a context that has ended: %v", err)
	}
	if _, err := closed.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrClosed) || broker.MaybeApplied(err) {
		t.Errorf("a later call: %v", err)
	}
}

func TestErrors_SayWhatWentWrongAndNotByWhichProtocol(t *testing.T) {
	lost := status.Error(codes.Unavailable, "error reading from server: EOF")
	for _, err := range []error{lost, fmt.Errorf("again: %w", lost)} {
		b := &Broker{address: "a"}
		got := b.failure("watch", "/x/", err)
		if want := "watch /x/: broker unavailable: error reading from server: EOF"; got.Error() != want || status.Code(got.Cause) != codes.Unavailable || !errors.Is(got, lost) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
