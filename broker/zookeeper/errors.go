package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// kinds maps the errors of the server to those of package broker. An error that is resolved
// by trying again, such as a conflicting version, never gets here.
var kinds = map[wire.Code]error{
	wire.CodeNoNode:         broker.ErrNotFound,
	wire.CodeNoAuth:         broker.ErrPermission,
	wire.CodeAuthFailed:     broker.ErrPermission,
	wire.CodeInvalidACL:     broker.ErrPermission,
	wire.CodeSessionExpired: broker.ErrSessionExpired,
	wire.CodeNoChildren:     broker.ErrInvalid,
	wire.CodeBadArguments:   broker.ErrInvalid,
	wire.CodeQuotaExceeded:  broker.ErrNoSpace,
	wire.CodeNotReadOnly:    broker.ErrNoQuorum,
	wire.CodeUnimplemented:  broker.ErrInvalid,
}

// classify returns the kind of an error of a connection or of the server.
func classify(err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e.Kind
	}
	if code, ok := errors.AsType[wire.Code](err); ok {
		if kind, ok := kinds[code]; ok {
			return kind
		}
		return broker.ErrUnavailable
	}
	switch {
	case errors.Is(err, wire.ErrAuth):
		return broker.ErrPermission
	case errors.Is(err, wire.ErrExpired):
		return broker.ErrSessionExpired
	case errors.Is(err, errHandshake) && isHangUp(err):
		return broker.ErrNoQuorum
	default:
		return broker.ErrUnavailable
	}
}

// isHangUp reports whether the server accepted the connection and closed it, as one without
// a quorum does.
func isHangUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// errHandshake marks the errors of connecting.
var errHandshake = errors.New("connect")

// failure returns the error of a call. Maybe is set if a write may have been applied.
func (b *Broker) failure(ctx context.Context, op, key string, err error) *broker.Error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e
	}
	e := broker.NewError(op, key, classify(err), err)
	if w, ok := errors.AsType[*wire.Error](err); ok {
		e.Maybe = w.Sent
	} else {
		e.Maybe = wire.MaybeApplied(err) && !errors.Is(err, errHandshake)
	}
	if e.Kind != broker.ErrUnavailable {
		return e
	}
	switch {
	case b.life.Err() != nil:
		e.Kind, e.Cause = broker.ErrClosed, nil
	case ctx.Err() != nil:
		e.Cause = ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		e.Cause = fmt.Errorf("no answer from %s within %v: %w", b.Address(), b.config.RequestTimeout, err)
	}
	return e
}

// readOnly is failure for a call that writes nothing.
func (b *Broker) readOnly(ctx context.Context, op, key string, err error) error {
	e := b.failure(ctx, op, key, err)
	e.Maybe = false
	return e
}
