package broker

import (
	"context"
	"errors"
)

// The kinds of broker errors; match them with errors.Is.
var (
	// ErrNotFound: the key does not exist.
	ErrNotFound = errors.New("not found")
	// ErrCompacted: the history from that revision on is gone; list again.
	ErrCompacted = errors.New("history compacted")
	// ErrUnavailable: the broker could not be reached or did not answer in time.
	ErrUnavailable = errors.New("broker unavailable")
	// ErrNoQuorum: the broker answers, but too few of its members are available.
	ErrNoQuorum = errors.New("broker has no quorum")
	// ErrNoSpace: the broker is full and refuses writes; the write that filled it may
	// have been applied.
	ErrNoSpace = errors.New("broker out of space")
	// ErrTooLarge: a key, value, transaction or request is over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrPermission: the broker refused the credentials or the operation.
	ErrPermission = errors.New("permission denied")
	// ErrSessionExpired: the session is gone for good, with all its keys.
	ErrSessionExpired = errors.New("session expired")
	// ErrInvalid: the request is invalid; nothing was sent.
	ErrInvalid = errors.New("invalid request")
	// ErrClosed: the broker was closed by this process.
	ErrClosed = errors.New("broker closed")
)

// ErrSilent is the cause when a watch ends with ErrUnavailable because nothing was
// received for too long.
var ErrSilent = errors.New("the watch is silent")

// Error is the error type of every method of a broker.
type Error struct {
	// Op is the method, in lower case.
	Op string
	// Key is the key, prefix or address concerned, if any.
	Key string
	// Kind is one of the sentinels of this package.
	Kind error
	// Cause is the error of the store or the network, if any.
	Cause error
	// Maybe is true if a write may have been applied, or may yet be.
	Maybe bool
}

// NewError returns an *Error for a request that was not applied.
func NewError(op, key string, kind, cause error) *Error {
	return &Error{Op: op, Key: key, Kind: kind, Cause: cause}
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Op
	if e.Key != "" {
		s += " " + e.Key
	}
	s += ": " + e.Kind.Error()
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	if e.Maybe {
		s += " (the outcome is unknown)"
	}
	return s
}

// Unwrap returns the kind and the cause, for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// MaybeApplied reports whether a write that failed with err may have been applied all
// the same. Only then does a caller have to read back.
func MaybeApplied(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Maybe
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Temporary reports whether the same call may succeed later: the broker was
// unreachable, without quorum or full.
func Temporary(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrNoSpace)
}
