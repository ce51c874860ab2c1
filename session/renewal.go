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
const renewalLook = 500 * time.Millisecond

// AwaitRenewal waits until each of some sessions in a folder has been renewed since the call, or
// has ended: what it holds is then held by nobody who had died before. It is for processes that
// live for less than a TTL, and would take what the dead have left for the work of the living.
// The caller has a session in the folder that it renews; that ends those that are not renewed,
// within their TTL. If it is lost, nobody may end them, so ctx should end with it. Where the store
// ends sessions by itself, within their TTL, AwaitRenewal returns at once: what they hold may be
// that of the dead until then. Errors are those of the broker, and the cause of ctx's end.
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
		r, err := broker.CommitOne(ctx, b, broker.Txn{Then: readsOf(folder, some)})
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

// Renewals are the last renewals of the sessions in a folder, as far as the store shows them: one
// that ends sessions by itself has none.
type Renewals map[broker.SessionID]Renewal

// Renewal is the last renewal of a session.
type Renewal struct {
	// At is when it was sent, by the clock of the session's process; zero if that is not known.
	At time.Time
	// TTL is that of the session.
	TTL time.Duration
}

// clocksApart is by how much the clocks of two machines may differ.
const clocksApart = 5 * time.Second

// ReadRenewals reads the renewals of some sessions, or of all without any.
func ReadRenewals(ctx context.Context, b broker.Broker, folder string, ids ...broker.SessionID) (Renewals, error) {
	all := Renewals{}
	if len(ids) == 0 {
		kvs, _, err := broker.Collect(ctx, b, folder)
		for i := range kvs {
			all.read(&kvs[i])
		}
		return all, err
	}
	for some := range slices.Chunk(ids, broker.TxnOpsMax/2) {
		r, err := broker.CommitOne(ctx, b, broker.Txn{Then: readsOf(folder, some)})
		if err != nil {
			return nil, err
		}
		for _, kv := range r.Reads {
			all.read(kv)
		}
	}
	return all, nil
}

// read adds what a session's key says.
func (r Renewals) read(kv *broker.KV) {
	if kv == nil {
		return
	}
	_, id, name, ok := sessionkey.Parse(kv.Key)
	if !ok {
		return
	}
	last := r[id]
	if name == sessionkey.Pulse {
		last.At = sessionkey.ParseStamp(kv.Value)
	} else if ttl, err := time.ParseDuration(string(kv.Value)); err == nil {
		last.TTL = ttl
	}
	r[id] = last
}

// Overdue reports whether a session has not been renewed within its TTL, for all that is known. It
// is what two clocks say, which may be wrong: a second look tells.
func (r Renewals) Overdue(id broker.SessionID, now time.Time) bool {
	last := r[id]
	return !last.At.IsZero() && last.TTL != 0 && now.Sub(last.At) > last.TTL+clocksApart
}

// readsOf returns the reads of the keys of sessions, two for each.
func readsOf(folder string, ids []broker.SessionID) (reads []broker.Op) {
	for _, id := range ids {
		reads = append(reads, broker.Read(sessionkey.Of(folder, id, sessionkey.Lease)), broker.Read(sessionkey.Of(folder, id, sessionkey.Pulse)))
	}
	return reads
}
