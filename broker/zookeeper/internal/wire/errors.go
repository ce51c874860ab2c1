package wire

import (
	"errors"
	"fmt"
)

var codeTexts = map[Code]string{
	CodeInconsistency: "not tried, because another operation of the same request failed", CodeConnectionLoss: "connection loss",
	CodeMarshalling: "marshalling error", CodeUnimplemented: "the server does not know this operation",
	CodeOperationTimeout: "operation timeout", CodeBadArguments: "bad arguments", CodeNoNode: "no such znode",
	CodeNoAuth: "not authorized, which is also all that is said of a wrong password", CodeBadVersion: "another version", CodeNoChildren: "an ephemeral znode has no children",
	CodeNodeExists: "the znode exists", CodeNotEmpty: "the znode has children", CodeSessionExpired: "session expired",
	CodeInvalidACL: "invalid ACL", CodeAuthFailed: "authentication failed", CodeSessionMoved: "the session moved to another connection",
	CodeNotReadOnly: "the server is read-only", CodeQuotaExceeded: "quota exceeded",
	CodeThrottled: "the server is overloaded",
}

// Error implements error.
func (c Code) Error() string {
	if text, ok := codeTexts[c]; ok {
		return "zookeeper: " + text
	}
	return fmt.Sprintf("zookeeper: error %d", int32(c))
}

// Error is the answer to a request that the server did not answer.
type Error struct {
	// Sent reports whether the request was passed to the network, so that the server
	// may have received it, or still may.
	Sent bool
	// Cause is the error of a context or of the connection.
	Cause error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Sent {
		return "no answer: " + e.Cause.Error()
	}
	return "not sent: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// MaybeApplied reports whether a request that ended with err may have been applied. After
// an error of the handshake or of the server itself it was not, except if the server
// reports that it lost track of the request.
func MaybeApplied(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Sent
	}
	if code, ok := errors.AsType[Code](err); ok {
		return code == CodeConnectionLoss || code == CodeOperationTimeout
	}
	return err != nil && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrAuth)
}

// The reasons for which a connection ends or is refused.
var (
	// ErrClosed: its owner closed it.
	ErrClosed = errors.New("the connection was closed")
	// ErrSilent: the server said nothing for too long.
	ErrSilent = errors.New("the server is silent")
	// ErrExpired: the server does not know the session, or no longer.
	ErrExpired = errors.New("the session has expired")
	// ErrAuth: the server refused the credentials.
	ErrAuth = errors.New("the credentials were refused")
)
