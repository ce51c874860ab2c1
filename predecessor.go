package windlass

import (
	"context"
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// predecessor is a process that had this node's name and died. Perhaps nobody else sees its
// claims end: no other node is there, or all of them have died with it.
type predecessor struct {
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

// predecessor reads what a process under this node's name holds that is dead, nil if it need
// not, or cannot: what was held is then started again as if nothing was known.
func (in *incarnation) predecessor(ctx context.Context, holder *broker.KV) *predecessor {
	if in.dead(holder) == "" {
		return nil
	}
	nodes, err := mirror.ListNodes(ctx, in.config.Broker, in.node.space)
	if err != nil {
		return nil
	}
	p := &predecessor{alone: len(nodes.Registered()) <= 1, info: holder.Value, session: holder.Session, settledAt: time.Now().Add(-holderTTL(holder.Value) - deaths.RecentFor)}
	old := map[string]bool{}
	for page, err := range in.config.Broker.List(ctx, in.node.space.Claims()) {
		if err != nil {
			return nil
		}
		for _, kv := range page.KVs {
			var r coordinator.Record
			if json.Unmarshal(kv.Value, &r) == nil && !r.ClaimedAt.IsZero() && r.ClaimedAt.Before(p.settledAt) {
				old[in.node.space.Parse(kv.Key).Name] = true
			}
		}
	}
	for page, err := range in.config.Broker.List(ctx, in.node.space.Tasks()) {
		if err != nil {
			return nil
		}
		for _, kv := range page.KVs {
			key := in.node.space.Parse(kv.Key)
			if key.Kind != keys.Owner || kv.Session != holder.Session {
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

// lastOf returns a registration under this node's name as its holder left it: one that stopped
// said so at last. It is known since this node is registered.
func (in *incarnation) lastOf(ctx context.Context, holder *broker.KV) *broker.KV {
	if in.dead(holder) == "" {
		return holder
	}
	ctx, cancel := context.WithTimeout(ctx, in.session.Timing().TTL)
	defer cancel()
	for batch, err := range in.config.Broker.Watch(ctx, in.node.space.NodeInfo(in.config.Name), holder.Modified+1) {
		if err != nil {
			return holder
		}
		for _, e := range batch.Events {
			if !e.Deleted && e.KV.Session == holder.Session {
				holder = &e.KV
			}
		}
		if batch.Revision >= in.infoCreated {
			return holder
		}
	}
	return holder
}

// succeed notes which process died under this node's name before, empty for none, and how its
// claims ended. Where others were registered they have seen more, and record it, unless they have died
// as well.
func (in *incarnation) succeed(dead string, p *predecessor) {
	if dead == "" {
		return
	}
	now := time.Now()
	if in.deaths.Inherit(dead, now); p == nil {
		return
	}
	if !p.alone {
		lost := make([]events.Lost, len(p.held))
		for i, e := range p.held {
			lost[i] = events.Lost{Task: e.Task, Token: e.Token}
		}
		d := deaths.Followed(in.config.Name, dead, lost, func(l events.Lost) bool { return l.Token > p.settled }, now)
		in.out.deaths.Put(dead, in.recordOf(&d), now.Add(2*recordAfter))
		return
	}
	if p.settled > 0 {
		in.deaths.Mark(p.settled, p.settledAt)
	}
	in.nodeGone(in.config.Name, mirror.Gone{Info: p.info, Session: p.session, At: in.infoCreated}, now)
	for _, e := range p.held {
		e.At = in.infoCreated // or a little earlier
		in.deaths.Ended(e)
	}
}
