package deaths

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Predecessor is a process that had a node's name and died. Perhaps nobody else sees its
// claims end: no other node is there, or all of them have died with it.
type Predecessor struct {
	// alone is true if no other node was registered.
	alone   bool
	info    []byte
	session broker.SessionID
	held    []mirror.Ended
	// settled is the last claim that was at least RecentFor old when it died, zero if none is
	// known to be. It is so since settledAt.
	settled   broker.Revision
	settledAt time.Time
}

// FindPredecessor reads what a dead process holds that has a registration, whose session lasts for a TTL. It returns nil if
// it cannot: what was held is then started again as if nothing was known.
func FindPredecessor(ctx context.Context, b broker.Broker, space keys.Space, registration *broker.KV, ttl time.Duration) *Predecessor {
	nodes, err := mirror.ListNodes(ctx, b, space)
	if err != nil {
		return nil
	}
	p := &Predecessor{alone: len(nodes.Registered()) <= 1, info: registration.Value, session: registration.Session, settledAt: time.Now().Add(-ttl - RecentFor)}
	old := map[string]bool{}
	for page, err := range b.List(ctx, space.Claims()) {
		if err != nil {
			return nil
		}
		for _, kv := range page.KVs {
			var r coordinator.Record
			if json.Unmarshal(kv.Value, &r) == nil && !r.ClaimedAt.IsZero() && r.ClaimedAt.Before(p.settledAt) {
				old[space.Parse(kv.Key).Name] = true
			}
		}
	}
	for page, err := range b.List(ctx, space.Tasks()) {
		if err != nil {
			return nil
		}
		for _, kv := range page.KVs {
			key := space.Parse(kv.Key)
			if key.Kind != keys.Owner || kv.Session != registration.Session {
				continue
			}
			p.held = append(p.held, mirror.Ended{Task: key.Name, Token: kv.Created, Session: kv.Session})
			if old[key.Name] {
				p.settled = max(p.settled, kv.Created)
			}
		}
	}
	return p
}

// LastOf returns a registration as its holder left it: one that stopped said so at last. It is known at a later
// revision, at which another has taken its name.
func LastOf(ctx context.Context, b broker.Broker, registration *broker.KV, later broker.Revision) *broker.KV {
	last := registration
	for batch, err := range b.Watch(ctx, registration.Key, registration.Modified+1) {
		if err != nil {
			return last
		}
		for _, e := range batch.Events {
			if !e.Deleted && e.KV.Session == registration.Session {
				last = &e.KV
			}
		}
		if batch.Revision >= later {
			return last
		}
	}
	return last
}

// TakeBack returns the transactions that take back the records of a node's deaths that its process has survived.
// Another process has its name: nobody else would.
func TakeBack(ctx context.Context, b broker.Broker, space keys.Space, node string, survived func(incarnation string) bool) ([]broker.Txn, error) {
	nodes, err := mirror.ListNodes(ctx, b, space)
	if err != nil {
		return nil, err
	}
	var txns []broker.Txn
	for _, d := range Recorded(nodes) {
		if d.Node == node && survived(d.Incarnation) {
			txns = append(txns, broker.Txn{Then: []broker.Op{broker.Delete(space.NodeDeath(d.Node, d.Incarnation))}})
		}
	}
	return txns, nil
}

const (
	// probationMin is the first probation, after the second death; each further death
	// doubles it, up to ProbationMax.
	probationMin = 10 * time.Second
	// ProbationMax is the longest time for which a node that has died repeatedly is given
	// nothing.
	ProbationMax = 10 * time.Minute
)

// Probation returns until when a node that has died so often is given nothing, zero for
// one that is given its share at once.
func Probation(died int) time.Time {
	if died < 2 {
		return time.Time{}
	}
	return time.Now().Add(min(probationMin<<(died-2), ProbationMax)).UTC()
}

// CountExcess returns how much more often than others a node has died within the last hour, as far
// as that is recorded, without the deaths that its process has survived, and no task explains why.
func CountExcess(ctx context.Context, b broker.Broker, space keys.Space, node string, survived func(incarnation string) bool) int {
	nodes, err := mirror.ListNodes(ctx, b, space)
	if err != nil {
		return 0 // whoever registers notices it as well
	}
	recorded := slices.DeleteFunc(Recorded(nodes), func(d Death) bool { return survived(d.Incarnation) })
	var book Book
	book.Set(recorded, true, func(string) broker.Revision { return 0 }, time.Now())
	return book.Excess(node, registeredIn(nodes))
}
