// Package attempts repeats calls to a broker while nobody knows what became of them.
package attempts

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

const (
	// Max limits the attempts while an outcome is unknown.
	Max = 5
	// Pause is how much longer each pause between two attempts is than the one before.
	Pause = 100 * time.Millisecond
	// revokeMax limits how long a caller that is done waits for the end of its session,
	// which would otherwise expire.
	revokeMax = 5 * time.Second
)

// ErrContended is the error of a change that others have forestalled Max times.
var ErrContended = fmt.Errorf("gave up after %d conflicting changes by others", Max)

// Commit commits a transaction that can take effect only once, and retries while its
// outcome is unknown. maybe is true if an attempt before the last one may have been
// applied.
func Commit(ctx context.Context, b broker.Broker, txn broker.Txn) (r broker.Result, maybe bool, err error) {
	var doubt error
	for attempt := 1; ; attempt++ {
		r, err = broker.CommitOne(ctx, b, txn)
		if err == nil || !broker.MaybeApplied(err) || !PauseAfter(ctx, err, attempt) {
			break
		}
		doubt = err
	}
	if err != nil {
		err = Doubted(err, doubt)
	}
	return r, doubt != nil, err
}

// Grant grants a session, and tries again while the outcome is unknown: a session that nobody
// knows of runs out by itself.
func Grant(ctx context.Context, b broker.Broker, ttl time.Duration) (granted broker.Session, err error) {
	for attempt := 1; ; attempt++ {
		granted, err = b.Grant(ctx, "", ttl)
		if err == nil || !broker.MaybeApplied(err) || !PauseAfter(ctx, err, attempt) {
			return granted, err
		}
	}
}

// Revoke ends a session, also once ctx is done.
func Revoke(ctx context.Context, b broker.Broker, id broker.SessionID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeMax)
	defer cancel()
	_ = b.Revoke(ctx, id) // it runs out by itself
}

// Doubted returns an error that says that an attempt before may have been applied all the same, if doubt, the error
// of that attempt, is not nil.
func Doubted(err, doubt error) error {
	if doubt == nil || broker.MaybeApplied(err) {
		return err
	}
	return fmt.Errorf("%[2]w; but an attempt before may yet be applied: %[1]w", doubt, err) // MaybeApplied asks the first that it finds
}

// PauseAfter pauses before a retry. It returns false if there should be none.
func PauseAfter(ctx context.Context, err error, attempt int) bool {
	if attempt >= Max || ctx.Err() != nil || !broker.MaybeApplied(err) && !broker.Temporary(err) {
		return false
	}
	pause.For(ctx, time.Duration(attempt)*Pause)
	return true
}
