package windlass

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// deathWatch is what a node knows of the deaths of others.
type deathWatch struct {
	*deaths.Watcher
	deaths.Book
	// stale is true while the records have changed since the book was written. listed is
	// true once those are known that were there before this node.
	stale, listed bool
	// forgetAt is when to delete records and promises that no longer count, zero if there
	// are none.
	forgetAt time.Time
	// excused is true if a task is to blame for the last death of this node, and the node had
	// not died more often than others when the records changed last.
	excused bool
}

// nodesGone reports the nodes that have vanished without notice.
func (in *incarnation) nodesGone(names []string, now time.Time) {
	for _, name := range names {
		if gone, ok := in.nodes.Gone(name); ok && gone.Session != in.session.ID() {
			in.nodeGone(name, gone, now)
		}
	}
}

// nodeGone notes that a registration has gone, unless it was one that was to go.
func (in *incarnation) nodeGone(name string, gone mirror.Gone, now time.Time) {
	var info NodeInfo
	if json.Unmarshal(gone.Info, &info) != nil || info.leaving() {
		return
	}
	if in.node.space.Parse(in.node.space.NodeDeath(name, info.Incarnation)).Kind != keys.NodeDeath {
		return // another program has registered it
	}
	in.keepFor(name, gone.Info, &info, now)
	in.deaths.Gone(deaths.Gone{
		Name: name, Incarnation: info.Incarnation, Session: gone.Session, At: gone.At, TTL: holderTTL(gone.Info),
	}, now)
}

// recordAfter is how long the nodes wait for the first of them to record a death, before
// they all try.
const recordAfter = 500 * time.Millisecond

// recordDeaths queues the records of the deaths whose claims are all known.
func (in *incarnation) recordDeaths(now time.Time) {
	if in.stage != stageWorking {
		return
	}
	died := in.deaths.Died(in.tasks.Revision(), now)
	for _, d := range died {
		in.deaths.Judge(&d, in.judged(), now) // its node may never be back, nor those before
		at := now
		if in.isYounger() {
			at = now.Add(recordAfter)
		}
		in.out.deaths.Put(d.Incarnation, in.recordOf(&d), at)
	}
	in.noteKept(died, now)
}

// isYounger reports whether another node has been there for longer, and so has seen more
// of what the dead have claimed.
func (in *incarnation) isYounger() bool {
	return slices.ContainsFunc(in.nodes.Registered(), func(n *mirror.Node) bool { return n.Created < in.infoCreated })
}

// judged returns what is known of the tasks to judge deaths by.
func (in *incarnation) judged() deaths.Fleet {
	sums := in.tasks.Sums()
	return deaths.Fleet{Limits: in.deathLimits, Tasks: sums.Owned + sums.Unowned}
}

// deathLimits returns what decides whether a task is set aside, false if it has ended.
func (in *incarnation) deathLimits(id string) (l deaths.Limits, ok bool) {
	t := in.tasks.Get(id)
	if t == nil {
		return l, false
	}
	return deaths.Limits{Created: t.Created, Deaths: in.kinds.OfTask(t).Spec.deathsLimit()}, true
}

// recordOf returns the transaction that records a death, and deletes what is outdated by it.
func (in *incarnation) recordOf(d *events.Death) broker.Txn {
	key := in.node.space.NodeDeath(d.Node, d.Incarnation)
	txn := broker.Txn{If: []broker.Cond{broker.Absent(key)}, Then: []broker.Op{broker.Put(key, d.Encode())}}
	for _, old := range deaths.Outdated(deaths.Recorded(in.nodes), d.Node) {
		txn.Then = append(txn.Then, broker.Delete(in.node.space.NodeDeath(d.Node, old.Incarnation)))
	}
	return txn
}

// forgetEvery is how often a node looks for records of deaths that no longer count, while
// there are any.
const forgetEvery = 10 * time.Minute

// forgetLater schedules when to look for what no longer counts.
func (in *incarnation) forgetLater(now time.Time) {
	switch {
	case !in.nodes.HasDeaths() && len(in.nodes.Promised()) == 0:
		in.deaths.forgetAt = time.Time{}
	case in.deaths.forgetAt.IsZero():
		in.deaths.forgetAt = now.Add(forgetEvery)
	}
}

// forgetDeaths deletes the records of deaths that no longer count, and the promises that were
// not kept.
func (in *incarnation) forgetDeaths(now time.Time) {
	if at := in.deaths.forgetAt; at.IsZero() || now.Before(at) {
		return
	}
	in.deaths.forgetAt = now.Add(forgetEvery)
	if in.isYounger() {
		return
	}
	in.forgetReturns(now)
	in.nodes.Deaths(func(node, incarnation string, kv broker.KV) {
		if d, ok := deaths.Parse(node, incarnation, kv); !ok || now.Sub(d.At) >= deaths.Window {
			key := in.node.space.NodeDeath(node, incarnation)
			in.out.deaths.Put(key, broker.Txn{Then: []broker.Op{broker.Delete(key)}}, now)
		}
	})
}

// deathsRecorded reads the records of deaths again, and takes those back of sessions
// that this process has survived.
func (in *incarnation) deathsRecorded(now time.Time) {
	in.deaths.stale = in.nodes.DeathsChanged() || in.deaths.stale
	if !in.deaths.stale || in.tasks.Revision() == 0 {
		return
	}
	in.deaths.stale = false
	recorded, known := deaths.Recorded(in.nodes), in.deaths.Book
	in.deaths.Set(recorded, !in.deaths.listed, in.tasks.CreatedAt, now)
	in.forgetLater(now)
	in.deaths.excused = in.deaths.Excused(in.config.Name) && in.deaths.Excess(in.config.Name, registeredIn(in.nodes)) < 2
	in.board.Look(in.deaths.Suspects())
	in.board.Look(in.deaths.Inherited(in.deaths.Has))
	for _, d := range recorded {
		if in.deaths.listed && (!known.Has(d.Incarnation) || d.Culprit != known.Culprit(d.Incarnation) && d.Culprit != "") {
			in.events.Died(d)
		}
		if d.Node == in.config.Name {
			in.answer(d, now)
		}
		in.acquit(d, now)
		if r := in.runs[d.Culprit]; d.Culprit != "" && r != nil && r.asleepFrom == 0 && in.deaths.Blamed(d.Culprit, r.claim.created) != nil &&
			!(d.Process != "" && slices.Contains(d.Lost, events.Lost{Task: d.Culprit, Token: r.claim.fencing})) { // that run is over, or about to be
			in.stopRun(d.Culprit, ErrReleased) // whoever claims it then sets it aside
		}
	}
	in.deaths.listed = true
	if in.stage != stageWorking || in.isYounger() {
		return
	}
	for _, r := range in.deaths.Refuted(in.judged().Tasks, now) {
		in.out.refuted.Put(r.Death.Incarnation, r, now)
	}
}

// acquit removes the tasks from the record of a death that this node has claimed since, and
// that were asleep when the node died: the stored state, of that claim or one before, says so.
func (in *incarnation) acquit(d events.Death, now time.Time) {
	innocent := func(l deaths.Lost) bool {
		r := in.runs[l.Task]
		return r != nil && r.asleepFrom != 0 && r.asleepFrom <= l.Token && l.Token < r.claim.token()
	}
	if in.stage != stageWorking || !slices.ContainsFunc(d.Lost, innocent) {
		return
	}
	key := in.node.space.NodeDeath(d.Node, d.Incarnation)
	d.Acquit(innocent)
	in.deaths.Judge(&d, in.judged(), now)
	in.out.deaths.Put(key, d.Rewrite(key), now)
}

// answer takes back the record of a death of this node that this process has survived,
// and confirms any other.
func (in *incarnation) answer(d events.Death, now time.Time) {
	key := in.node.space.NodeDeath(d.Node, d.Incarnation)
	switch {
	case in.stage != stageWorking || d.Restarted:
	case slices.Contains(in.node.incarnations, d.Incarnation):
		in.out.deaths.Put(key, broker.Txn{Then: []broker.Op{broker.Delete(key)}}, now)
	default:
		d.Restarted = true
		in.deaths.Judge(&d, in.judged(), now)
		in.out.deaths.Put(key, d.Rewrite(key), now)
	}
}

// recordDied stores records of deaths, and what this node answers to its own. All of
// them can be repeated.
func (in *incarnation) recordDied(ctx context.Context, of []string, txns []broker.Txn) (then func()) {
	err := commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, txns)
	return func() {
		in.troubleIf(err, "record the death of a node")
		for i := range of {
			if broker.Temporary(err) {
				in.out.deaths.Put(of[i], txns[i], time.Now().Add(retryEnd))
			}
		}
	}
}

// takeBack removes the records of deaths that this process has survived, while another has its
// name: nobody else would.
func (in *incarnation) takeBack(ctx context.Context) {
	nodes, err := mirror.ListNodes(ctx, in.config.Broker, in.node.space)
	if err != nil {
		return // it is tried again once this node is registered
	}
	var txns []broker.Txn
	for _, d := range deaths.Recorded(nodes) {
		if d.Node == in.config.Name && slices.Contains(in.node.incarnations, d.Incarnation) {
			txns = append(txns, broker.Txn{Then: []broker.Op{broker.Delete(in.node.space.NodeDeath(d.Node, d.Incarnation))}})
		}
	}
	if err := commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, txns); err != nil {
		in.events.BrokerTrouble(err)
	}
}

// dead returns the incarnation of a registration under this node's name that belongs to a process
// that died, if it expires; empty for another.
func (in *incarnation) dead(holder *broker.KV) string {
	var info NodeInfo
	if holder == nil || json.Unmarshal(holder.Value, &info) != nil || info.leaving() ||
		slices.Contains(in.node.incarnations, info.Incarnation) {
		return ""
	}
	return info.Incarnation
}
