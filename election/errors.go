package election

import (
	"errors"

	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/session"
)

// Errors that callers branch on. The first four are causes with which a term ends;
// match them with errors.Is. A term also ends with session.ErrLost.
var (
	// ErrResigned: the leader gave up, or was asked to (RequestResign).
	ErrResigned = errors.New("the leader resigned")
	// ErrDeposed: the leader's entry was deleted from outside. A session that someone
	// else has revoked also shows like this at first.
	ErrDeposed = errors.New("the entry was deleted from outside")
	// ErrStopped: the election was stopped here, or its member's Run has ended.
	ErrStopped = errors.New("the election was stopped")
	// ErrLost is that of package session, so that callers need not import both.
	ErrLost = session.ErrLost

	// ErrNotLeader: a write was refused, or not sent, because its term is over.
	ErrNotLeader = errors.New("not the leader")
	// ErrNoLeader: the election has no candidates.
	ErrNoLeader = errors.New("nobody leads")
	// ErrNameTaken: another live session is a candidate with this name.
	ErrNameTaken = errors.New("the candidate name is taken by another session")
	// ErrTwice: there can be only one of something: a second Run of a member, a second
	// Election of one name on it, a second Lead.
	ErrTwice = errors.New("there can be only one")
	// ErrLayout: the namespace's layout is newer than this version supports.
	ErrLayout = layout.ErrLayout
	// ErrAbandoned: a function still ran as leader when its session's hard deadline had
	// passed.
	ErrAbandoned = errors.New("a function that led has not returned in time")
)
