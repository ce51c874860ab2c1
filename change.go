package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// change writes or deletes a key, which must be as it was read, and reads another one.
// Each attempt also needs a session that ends with the call, so that one which arrives
// later does not undo a later change; attempt is the key that it is for. The error is
// ErrNotFound if there is nothing to delete.
func (c *Client) change(ctx context.Context, op broker.Op, attempt, besides string) (read *broker.KV, err error) {
	if err := c.checkLayout(ctx); err != nil {
		return nil, err
	}
	attempts, err := c.grant(ctx, session.TTLMin)
	if err != nil {
		return nil, err
	}
	defer c.revoke(ctx, attempts.ID)
	alive := broker.PutSession(attempt, nil, attempts.ID)
	maybeDeleted := false // by an attempt whose answer was lost
	for range attemptsMax {
		kv, err := c.broker.Get(ctx, op.Key)
		unchanged := broker.Modified(op.Key, kv.Modified)
		switch {
		case errors.Is(err, broker.ErrNotFound) && op.Kind == broker.OpDelete && maybeDeleted:
			return nil, nil
		case errors.Is(err, broker.ErrNotFound) && op.Kind == broker.OpDelete:
			return nil, ErrNotFound
		case errors.Is(err, broker.ErrNotFound):
			unchanged = broker.Absent(op.Key)
		case err != nil:
			return nil, err
		}
		r, maybe, err := c.persist(ctx, broker.Txn{If: []broker.Cond{unchanged}, Then: []broker.Op{op, alive, broker.Read(besides)}})
		if err != nil {
			return nil, err
		}
		if r.OK {
			return r.Reads[0], nil
		}
		maybeDeleted = maybeDeleted || maybe // if not, another change refused it
	}
	return nil, errors.New("it changes too often")
}

const (
	// attemptsMax and attemptPause limit retries while an outcome is unknown.
	attemptsMax  = 5
	attemptPause = 100 * time.Millisecond
	// revokeMax limits how long a caller that is done waits for the end of its session,
	// which would otherwise expire.
	revokeMax = 5 * time.Second
)

// persist commits a transaction that can take effect only once, and retries while its
// outcome is unknown. maybe is true if an attempt before the last one may have been
// applied.
func (c *Client) persist(ctx context.Context, txn broker.Txn) (r broker.Result, maybe bool, err error) {
	var doubt error
	for attempt := 1; ; attempt++ {
		r, err = broker.CommitOne(ctx, c.broker, txn)
		if err == nil || !broker.MaybeApplied(err) || !pauseAfter(ctx, err, attempt) {
			break
		}
		doubt = err
	}
	if err != nil {
		err = doubted(err, doubt)
	}
	return r, doubt != nil, err
}

// grant grants a session, and tries again while the outcome is unknown: a session that nobody
// knows of runs out by itself.
func (c *Client) grant(ctx context.Context, ttl time.Duration) (granted broker.Session, err error) {
	for attempt := 1; ; attempt++ {
		granted, err = c.broker.Grant(ctx, "", ttl)
		if err == nil || !broker.MaybeApplied(err) || !pauseAfter(ctx, err, attempt) {
			return granted, err
		}
	}
}

func (c *Client) revoke(ctx context.Context, id broker.SessionID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeMax)
	defer cancel()
	_ = c.broker.Revoke(ctx, id) // it runs out by itself
}

// doubted returns an error that says that an attempt before may have been applied all the same, if doubt, the error
// of that attempt, is not nil.
func doubted(err, doubt error) error {
	if doubt == nil || broker.MaybeApplied(err) {
		return err
	}
	return fmt.Errorf("%[2]w; but an attempt before may yet be applied: %[1]w", doubt, err) // MaybeApplied asks the first that it finds
}

// pauseAfter pauses before a retry. It returns false if there should be none.
func pauseAfter(ctx context.Context, err error, attempt int) bool {
	if attempt >= attemptsMax || ctx.Err() != nil || !broker.MaybeApplied(err) && !broker.Temporary(err) {
		return false
	}
	pause.For(ctx, time.Duration(attempt)*attemptPause)
	return true
}

// pick returns the IDs of some indexes.
func pick(ids []string, indexes []int) []string {
	some := make([]string, len(indexes))
	for n, i := range indexes {
		some[n] = ids[i]
	}
	return some
}
