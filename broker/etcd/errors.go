package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
)

// verdict is what an error of etcd means.
type verdict struct {
	kind error
	// refused tells that the request was certainly not applied and never will
	// be. When in doubt it is false.
	refused bool
}

// verdicts are the errors that etcd's servers name, by their text: it is all
// that the client and the watch responses keep of them.
var verdicts = func() map[string]verdict {
	refused := map[error][]error{
		broker.ErrCompacted:      {rpctypes.ErrGRPCCompacted},
		broker.ErrSessionExpired: {rpctypes.ErrGRPCLeaseNotFound},
		broker.ErrTooLarge:       {rpctypes.ErrGRPCRequestTooLarge, rpctypes.ErrGRPCTooManyOps},
		broker.ErrPermission: {
			rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthFailed,
			rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCUserNotFound, rpctypes.ErrGRPCAuthOldRevision,
			rpctypes.ErrGRPCAuthNotEnabled, rpctypes.ErrGRPCRootUserNotExist, rpctypes.ErrGRPCRootRoleNotExist,
		},
		broker.ErrInvalid: {
			rpctypes.ErrGRPCEmptyKey, rpctypes.ErrGRPCDuplicateKey, rpctypes.ErrGRPCLeaseTTLTooLarge,
			rpctypes.ErrGRPCInvalidClientAPIVersion, rpctypes.ErrGRPCInvalidSortOption,
		},
		// A member that knows no leader says so before it passes anything on.
		broker.ErrNoQuorum: {rpctypes.ErrGRPCNoLeader},
		// An overloaded member refuses before it proposes; a corrupt or
		// incapable one applies nothing.
		broker.ErrUnavailable: {
			rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCCorrupt,
			rpctypes.ErrGRPCNotCapable, rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCFutureRev,
		},
	}
	// These may come after the request was handed to the cluster.
	unknown := map[error][]error{
		broker.ErrNoQuorum: {
			rpctypes.ErrGRPCTimeoutDueToLeaderFail, rpctypes.ErrGRPCTimeoutDueToConnectionLost,
			rpctypes.ErrGRPCUnhealthy, rpctypes.ErrGRPCNotLeader,
		},
		broker.ErrUnavailable: {
			rpctypes.ErrGRPCTimeout, rpctypes.ErrGRPCTimeoutWaitAppliedIndex, rpctypes.ErrGRPCLeaderChanged,
			rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCCanceled, rpctypes.ErrGRPCDeadlineExceeded,
			rpctypes.ErrGRPCWatchCanceled,
		},
		// A request that passed a member's first look at the quota and meets a
		// full store when it is applied is applied all the same, and then
		// reported with the same error as one that was refused.
		broker.ErrNoSpace: {rpctypes.ErrGRPCNoSpace},
	}
	table := map[string]verdict{}
	for kind, errs := range refused {
		for _, err := range errs {
			table[rpctypes.ErrorDesc(err)] = verdict{kind, true}
		}
	}
	for kind, errs := range unknown {
		for _, err := range errs {
			table[rpctypes.ErrorDesc(err)] = verdict{kind, false}
		}
	}
	return table
}()

// classify says what an error of the etcd client means: its kind, and whether
// the request was certainly not applied. It is the only place that knows.
func classify(err error) (kind error, refused bool) {
	text := rpctypes.ErrorDesc(err)
	if named, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		text = named.Error()
	}
	if v, ok := verdicts[text]; ok {
		return v.kind, v.refused
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return broker.ErrUnavailable, neverSent(text)
	case codes.PermissionDenied, codes.Unauthenticated:
		return broker.ErrPermission, true
	case codes.InvalidArgument:
		return broker.ErrInvalid, true
	case codes.ResourceExhausted:
		// The client's own limit, or the server's, of a message's size. The
		// client receives messages of any size, so it is about the request.
		if strings.Contains(text, "message") && strings.Contains(text, "larger than max") {
			return broker.ErrTooLarge, true
		}
	}
	return broker.ErrUnavailable, false
}

// neverSent recognizes the errors of a request for which there was no
// connection. Nothing of it left this process.
func neverSent(text string) bool {
	for _, sign := range []string{"no address available", "no connection available", "transport: Error while dialing"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func isNoLeader(err error) bool {
	return rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader)
}

// requestFailure is the error of a request that was made for a caller with ctx.
// Maybe is set when the request, if it writes, could have been applied.
func (b *Broker) requestFailure(ctx context.Context, op, key string, err error) *broker.Error {
	kind, refused := classify(err)
	e := broker.NewError(op, key, kind, err)
	e.Maybe = !refused
	if kind != broker.ErrUnavailable || refused {
		return e
	}
	switch at := b.askedAt(ctx); {
	case b.life.Err() != nil:
		closed := b.closedError(op, key)
		closed.Maybe = true
		return closed
	case ctx.Err() != nil:
		e.Cause = ctx.Err()
	case isDeadline(err):
		e.Cause = fmt.Errorf("no answer from %s within %v: %w", at, b.timeout, context.DeadlineExceeded)
	case at != b.address:
		e.Cause = fmt.Errorf("%s: %w", at, err)
	}
	return e
}

// failure is the error of something that writes nothing.
func (b *Broker) failure(op, key string, err error) *broker.Error {
	kind, _ := classify(err)
	return broker.NewError(op, key, kind, err)
}

// isDeadline recognizes a request that ran out of time, whether the client or
// the server noticed first.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded ||
		rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCDeadlineExceeded)
}

func joinEndpoints(client *clientv3.Client) string { return strings.Join(client.Endpoints(), ",") }

// readOnly turns the error of a call that writes nothing into the one to return.
func readOnly(e *broker.Error) error {
	if e == nil {
		return nil
	}
	e.Maybe = false
	return e
}

// writing turns the error of a call that writes into the one to return. It
// exists because a nil *broker.Error in an error is not nil.
func writing(e *broker.Error) error {
	if e == nil {
		return nil
	}
	return e
}
