package operate

import (
	"context"
	"errors"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/session"
)

// change writes or deletes a key, which must be as it was read, and reads another one.
// Each attempt also needs a session that ends with the call, so that one which arrives
// later does not undo a later change; attempt is the key that it is for. The error is
// windlass.ErrNotFound if there is nothing to delete.
func (o *Operator) change(ctx context.Context, op broker.Op, attempt, besides string) (read *broker.KV, err error) {
	if err := o.layout.Check(ctx, o.broker, o.space); err != nil {
		return nil, err
	}
	session, err := attempts.Grant(ctx, o.broker, session.TTLMin)
	if err != nil {
		return nil, err
	}
	defer attempts.Revoke(ctx, o.broker, session.ID)
	alive := broker.PutSession(attempt, nil, session.ID)
	maybeDeleted := false // by an attempt whose answer was lost
	for range attempts.Max {
		kv, err := o.broker.Get(ctx, op.Key)
		unchanged := broker.Modified(op.Key, kv.Modified)
		switch {
		case errors.Is(err, broker.ErrNotFound) && op.Kind == broker.OpDelete && maybeDeleted:
			return nil, nil
		case errors.Is(err, broker.ErrNotFound) && op.Kind == broker.OpDelete:
			return nil, windlass.ErrNotFound
		case errors.Is(err, broker.ErrNotFound):
			unchanged = broker.Absent(op.Key)
		case err != nil:
			return nil, err
		}
		r, maybe, err := attempts.Commit(ctx, o.broker, broker.Txn{If: []broker.Cond{unchanged}, Then: []broker.Op{op, alive, broker.Read(besides)}})
		if err != nil {
			return nil, err
		}
		if r.OK {
			return r.Reads[0], nil
		}
		maybeDeleted = maybeDeleted || maybe // if not, another change refused it
	}
	return nil, attempts.ErrContended
}
