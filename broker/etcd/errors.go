package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
)

// verdict is the meaning of an error of etcd.
type verdict struct {
	kind error
	// refused is true if the request was certainly not applied and never will be.
	refused bool
}

// verdicts are the errors of etcd's servers by their text, because clients and watch
// responses keep nothing else of them.
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
		// A member that knows no leader does not pass a request on.
		broker.ErrNoQuorum: {rpctypes.ErrGRPCNoLeader},
		// An overloaded member refuses before it proposes; a corrupt or
		// incapable one applies nothing.
		broker.ErrUnavailable: {
			rpctypes.ErrGRPCRequestTooManyRequests, rpctypes.ErrGRPCCorrupt,
			rpctypes.ErrGRPCNotCapable, rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCFutureRev,
		},
	}
	// The request may already have been passed to the cluster.
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
		// If the quota is exceeded between a member's check of a request and its
		// application, the request is applied, and still gets the error of a refusal.
		broker.ErrNoSpace: {rpctypes.ErrGRPCNoSpace},
	}
	table := map[string]verdict{}
	for isRefused, kinds := range map[bool]map[error][]error{true: refused, false: unknown} {
		for kind, errs := range kinds {
			for _, err := range errs {
				table[rpctypes.ErrorDesc(err)] = verdict{kind, isRefused}
			}
		}
	}
	return table
}()

// classify returns the kind of an error of the etcd client, and whether the request was
// certainly not applied.
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
		// The client's or the server's limit of a message's size. The client receives
		// messages of any size, so the request is meant.
		if strings.Contains(text, "message") && strings.Contains(text, "larger than max") {
			return broker.ErrTooLarge, true
		}
	}
	return broker.ErrUnavailable, false
}

// neverSent reports whether a request was not sent because there was no connection.
func neverSent(text string) bool {
	return slices.ContainsFunc([]string{"no address available", "no connection available", "transport: Error while dialing"},
		func(sign string) bool { return strings.Contains(text, sign) })
}

func isNoLeader(err error) bool {
	return rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader)
}

// requestFailure returns the error of a request that was made for a caller with ctx. Maybe
// is set if a write may have been applied.
func (b *Broker) requestFailure(ctx context.Context, op, key string, err error) *broker.Error {
	kind, refused := classify(err)
	err = plain(err)
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

// failure returns the error of an operation that writes nothing.
func (b *Broker) failure(op, key string, err error) *broker.Error {
	kind, _ := classify(err)
	return broker.NewError(op, key, kind, plain(err))
}

// plainError is an error of gRPC whose text is only what went wrong, without that it came by
// gRPC and as which code.
type plainError struct {
	error
	text string
}

func plain(err error) error {
	if told, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return plainError{err, told.GRPCStatus().Message()}
	}
	return err
}

// Error implements error.
func (e plainError) Error() string { return e.text }

// Unwrap returns the error itself.
func (e plainError) Unwrap() error { return e.error }

// isDeadline reports whether a request timed out, at the client or at the server.
func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded ||
		rpctypes.ErrorDesc(err) == rpctypes.ErrorDesc(rpctypes.ErrGRPCDeadlineExceeded)
}

// readOnly marks the error of a call as one that wrote nothing.
func readOnly(err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		e.Maybe = false
	}
	return err
}
