package session

import (
	"context"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

// renewalLook is the time between two looks at sessions. They are renewed each second at most.
const renewalLook = 200 * time.Millisecond

// AwaitRenewal waits until each of some sessions in a folder has been renewed since the call, or
// has ended: what it holds is then held by nobody who had died before. It is for processes that
// live for less than a TTL, and would take what the dead have left for the work of the living.
// The caller has a session in the folder that it renews; that ends those that are not renewed,
// within their TTL. Where the store ends sessions by itself, within their TTL, AwaitRenewal
// returns at once. Errors are those of the broker, and the cause of ctx's end.
func AwaitRenewal(ctx context.Context, b broker.Broker, folder string, ids ...broker.SessionID) error {
	waiting := slices.Clone(ids)
	seen := map[broker.SessionID]broker.Revision{}
	for {
		left, err := notRenewed(ctx, b, folder, waiting, seen)
		if err != nil || len(left) == 0 {
			return err
		}
		waiting = left
		if !pause.For(ctx, renewalLook) {
			return context.Cause(ctx)
		}
	}
}

// notRenewed returns those of the sessions that nobody has seen renewed. seen has the revisions
// of the renewals that were seen first.
func notRenewed(ctx context.Context, b broker.Broker, folder string, ids []broker.SessionID, seen map[broker.SessionID]broker.Revision) (left []broker.SessionID, err error) {
	for some := range slices.Chunk(ids, broker.TxnOpsMax/2) {
		var reads []broker.Op
		for _, id := range some {
			reads = append(reads, broker.Read(sessionkey.Of(folder, id, sessionkey.Lease)), broker.Read(sessionkey.Of(folder, id, sessionkey.Pulse)))
		}
		r, err := broker.CommitOne(ctx, b, broker.Txn{Then: reads})
		if err != nil {
			return nil, err
		}
		for i, id := range some {
			lease, beat := r.Reads[2*i], r.Reads[2*i+1]
			switch first, known := seen[id]; {
			case beat == nil: // gone, of a store that has none, or of one without space, where none ends
			case !known:
				seen[id] = beat.Modified
				left = append(left, id)
			case lease == nil || beat.Modified == first: // its keys are about to be deleted, or it is silent
				left = append(left, id)
			}
		}
	}
	return left, nil
}
