package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
)

// Death is the record of a node that vanished without notice: its process died, or was
// cut off for longer than its session lasts. A node that was only cut off takes the
// record back. Records are kept for an hour. The JSON of a Death is stable.
type Death = deaths.Death

// LostClaim is a claim that ended with the death of its node. Its JSON is stable.
type LostClaim = deaths.Lost

// Limits of Retry.Deaths.
const (
	// DeathsDefault is how many deaths set a task aside by default.
	DeathsDefault = deaths.CountDefault
	// DeathsMax is the maximum of Retry.Deaths.
	DeathsMax = deaths.CountMax
)

// Deaths returns the deaths of nodes within the last hour, the latest first.
func (c *Client) Deaths(ctx context.Context) ([]Death, error) {
	nodes, err := listNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list the deaths of nodes: %w", err)
	}
	return recordedDeaths(nodes), nil
}

// recordedDeaths returns the deaths that a copy has and that still count, the latest
// first.
func recordedDeaths(nodes *mirror.Nodes) []Death {
	recorded := []Death{}
	nodes.Deaths(func(node, incarnation string, kv broker.KV) {
		if d, ok := deaths.Parse(node, incarnation, kv); ok && time.Since(d.At) < deaths.Window {
			recorded = append(recorded, d)
		}
	})
	slices.SortFunc(recorded, func(a, b Death) int { return b.At.Compare(a.At) })
	return recorded
}

// deathsLimit returns how many deaths set a task aside; zero means that no number does.
func (s *Spec) deathsLimit() int {
	switch {
	case s.Retry == nil || s.Retry.Deaths == 0:
		return DeathsDefault
	case s.Retry.Deaths < 0:
		return 0
	}
	return s.Retry.Deaths
}

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

// recordAfter is how long the nodes wait for the first of them to record a death, before
// they all try.
const recordAfter = 500 * time.Millisecond

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

// recordDeaths queues the records of the deaths whose claims are all known.
func (in *incarnation) recordDeaths(now time.Time) {
	if in.closing || in.lost {
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
func (in *incarnation) recordOf(d *Death) broker.Txn {
	key := in.node.space.NodeDeath(d.Node, d.Incarnation)
	txn := broker.Txn{If: []broker.Cond{broker.Absent(key)}, Then: []broker.Op{broker.Put(key, d.Encode())}}
	for _, old := range deaths.Outdated(recordedDeaths(in.nodes), d.Node) {
		txn.Then = append(txn.Then, broker.Delete(in.node.space.NodeDeath(d.Node, old.Incarnation)))
	}
	return txn
}

// RecordDeath records that a process has died that ran the work of tasks for this node, as a supervisor
// of commands or a plugin does. One of the tasks may be to blame, just as if the node had died with
// it: it is a death of each (Retry.Deaths), and what was claimed lately is started again one after the
// other. Then their handlers are told to stop, if they have not returned, and the tasks given back.
// Handlers must not return before RecordDeath does: others could claim the tasks unaware. process is
// for people, a name as that of a node. Tasks that run here no more are left out. An error of the broker
// means that the record may be missing; it is tried again in the background.
func (n *Node) RecordDeath(ctx context.Context, process string, tasks []string) error {
	if err := keys.CheckProcess(process); err != nil {
		return badName(err)
	}
	n.mu.Lock()
	var in *incarnation
	for _, id := range tasks {
		if r := n.held[id]; r != nil {
			in = r.claim.in
		}
	}
	n.mu.Unlock()
	died := make(chan *processDeath, 1)
	if in == nil || !in.arrive(func() { died <- in.processDied(process, tasks) }) {
		return nil // whoever has their claims by now has started them anew
	}
	d := <-died
	if len(d.lost) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(in.session.Context(), cancel)() // the handlers must return in time
	defer cancel()
	err := commitWithin(ctx, n.config.Broker, in.session.Timing().TTL, []broker.Txn{d.record})
	in.arrive(func() {
		if err != nil {
			in.out.deaths.Put(d.incarnation, d.record, time.Now())
		}
		for _, l := range d.lost {
			if r := in.runs[l.Task]; r != nil && r.claim.fencing == l.Token && r.phase == phaseRunning {
				in.stopRun(l.Task, crash{process})
			}
		}
	})
	if err != nil {
		return fmt.Errorf("record the death of the %s of node %s: %w", process, n.config.Name, err)
	}
	return nil
}

// processDeath is the death of a process that ran the work of claims, and how it is recorded.
type processDeath struct {
	lost        []LostClaim
	incarnation string
	record      broker.Txn
}

// processDied returns the death of a process that ran the work of tasks. Those are lost whose handlers have
// not returned.
func (in *incarnation) processDied(process string, tasks []string) *processDeath {
	now := time.Now()
	var lost []LostClaim
	for _, id := range tasks {
		if r := in.runs[id]; r != nil && r.handle != nil && !in.lost {
			lost = append(lost, LostClaim{Task: id, Token: r.claim.fencing})
		}
	}
	recent := func(l LostClaim) bool { return now.Sub(in.runs[l.Task].claim.claimedAt) < deaths.RecentFor }
	d := deaths.ProcessDied(in.config.Name, process, lost, recent, now)
	in.deaths.Judge(&d, in.judged(), now)
	return &processDeath{lost: lost, incarnation: d.Incarnation, record: in.recordOf(&d)}
}

// crash is why a task is given back whose work has died with the process that ran it.
type crash struct{ process string }

// Error says what has died; it is empty for the node itself.
func (c crash) Error() string {
	if c.process == "" {
		return ""
	}
	return "the " + c.process + " that ran it died"
}

// Is reports whether target is ErrReleased.
func (c crash) Is(target error) bool { return target == ErrReleased }

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
	if at := in.deaths.forgetAt; at.IsZero() || now.Before(at) || in.closing || in.lost {
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
	recorded, known := recordedDeaths(in.nodes), in.deaths.Book
	in.deaths.Set(recorded, !in.deaths.listed, createdIn(in.tasks), now)
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
			!(d.Process != "" && slices.Contains(d.Lost, LostClaim{Task: d.Culprit, Token: r.claim.fencing})) { // that run is over, or about to be
			in.stopRun(d.Culprit, ErrReleased) // whoever claims it then sets it aside
		}
	}
	in.deaths.listed = true
	if in.closing || in.lost || in.isYounger() {
		return
	}
	for _, r := range in.deaths.Refuted(in.judged().Tasks, now) {
		in.out.refuted.Put(r.Death.Incarnation, r, now)
	}
}

// sendRefuted brings back what was set aside wrongly, and then takes the blame out of the
// record: until that is done, it is done again by whichever node has been there for longest.
func (in *incarnation) sendRefuted(ctx context.Context, now time.Time) {
	lane := &in.out.refuted
	dispatch(in, lane, now, func(incarnations []string, all []deaths.Refuted) func() {
		r := all[0]
		err := in.node.bringBack(ctx, r)
		if err == nil {
			err = commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, []broker.Txn{
				r.Death.Rewrite(in.node.space.NodeDeath(r.Death.Node, r.Death.Incarnation)),
			})
		}
		return func() {
			in.troubleIf(err, "bring back a task that was set aside wrongly")
			if err != nil {
				lane.Put(incarnations[0], r, time.Now().Add(retryEnd))
			}
		}
	})
}

// bringBack runs a task again that was set aside wrongly and is that still, from where it had
// come. It returns only errors that may pass.
func (n *Node) bringBack(ctx context.Context, r deaths.Refuted) error {
	client, err := NewClient(n.config.Broker, n.config.Namespace)
	if err != nil {
		return err // cannot be: the node has the same configuration
	}
	detail, err := client.Task(ctx, r.Task)
	if err == nil && detail.Status == StatusFailed && detail.Token > int64(r.Token) && strings.HasPrefix(detail.LastError(), setAside) {
		if err = client.Continue(ctx, r.Task); err == nil {
			client.note(ctx, map[string]changeNote{r.Task: {
				text: fmt.Sprintf("continue, by node %s: it was set aside wrongly, as %s explains the deaths", n.config.Name, r.By), ended: detail.Token,
			}})
			n.events.BroughtBack(r.Task, r.By)
		}
	}
	if err == nil || broker.Temporary(err) || broker.MaybeApplied(err) {
		return err
	}
	n.events.BrokerTrouble(fmt.Errorf("task %q was set aside wrongly, and is not run again: %w", r.Task, err))
	return nil
}

// setAside begins the error of a task that is to blame for deaths.
const setAside = "set aside: the process that ran it died"

// acquit removes the tasks from the record of a death that this node has claimed since, and
// that were asleep when the node died: the stored state, of that claim or one before, says so.
func (in *incarnation) acquit(d Death, now time.Time) {
	innocent := func(l deaths.Lost) bool {
		r := in.runs[l.Task]
		return r != nil && r.asleepFrom != 0 && r.asleepFrom <= l.Token && l.Token < r.claim.token()
	}
	if in.closing || in.lost || !slices.ContainsFunc(d.Lost, innocent) {
		return
	}
	key := in.node.space.NodeDeath(d.Node, d.Incarnation)
	d.Acquit(innocent)
	in.deaths.Judge(&d, in.judged(), now)
	in.out.deaths.Put(key, d.Rewrite(key), now)
}

// answer takes back the record of a death of this node that this process has survived,
// and confirms any other.
func (in *incarnation) answer(d Death, now time.Time) {
	key := in.node.space.NodeDeath(d.Node, d.Incarnation)
	switch {
	case in.closing || in.lost || d.Restarted:
	case slices.Contains(in.node.incarnations, d.Incarnation):
		in.out.deaths.Put(key, broker.Txn{Then: []broker.Op{broker.Delete(key)}}, now)
	default:
		d.Restarted = true
		in.deaths.Judge(&d, in.judged(), now)
		in.out.deaths.Put(key, d.Rewrite(key), now)
	}
}

// sendDeaths sends the records of deaths, and what this node answers to its own. All of
// them can be repeated.
func (in *incarnation) sendDeaths(ctx context.Context, now time.Time) {
	lane := &in.out.deaths
	lane.Sift(now, func(incarnation string, _ broker.Txn) bool { return !in.deaths.Has(incarnation) })
	dispatch(in, lane, now, func(of []string, txns []broker.Txn) func() {
		err := commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, txns)
		return func() {
			in.troubleIf(err, "record the death of a node")
			for i := range of {
				if broker.Temporary(err) {
					lane.Put(of[i], txns[i], time.Now().Add(retryEnd))
				}
			}
		}
	})
}

// createdIn returns a function that returns the revision at which a task of a copy was
// created, zero if it is gone.
func createdIn(tasks *mirror.Tasks) func(id string) broker.Revision {
	return func(id string) broker.Revision {
		if t := tasks.Get(id); t != nil {
			return t.Created
		}
		return 0
	}
}

// apart returns the time before which a task is not to be claimed because its last claim
// has ended, or may have, with the death of its node.
func (in *incarnation) apart(t *mirror.Task, now time.Time) time.Time {
	if in.fleet.Braked(t.Last, now) {
		return time.Time{} // most nodes vanished at once, which is no task's doing
	}
	if until := in.deaths.Undecided(t.ID, in.nodes.Revision(), in.deaths.Has); until.After(now) {
		return until
	}
	if until := in.deaths.Inherits(t, in.deaths.Has, now); until.After(now) {
		return until
	}
	at := in.deaths.OpenAt(t.ID, t.Created, now)
	if slices.ContainsFunc(in.deaths.Rivals(t.ID, t.Created, now), in.busyWith) {
		at = at.Add(deaths.ApartFor)
	}
	if in.deaths.Losses(t.ID) > 0 {
		nodes := in.nodes.Registered()
		place := slices.IndexFunc(nodes, func(n *mirror.Node) bool { return n.Name == in.config.Name })
		for _, until := range []time.Time{in.deaths.Watcher.Scatter(t.ID, place), in.deaths.Book.Scatter(t.ID, place)} {
			if len(nodes) > 1 && until.After(at) {
				at = until
			}
		}
	}
	return at
}

// blame fails a task that is to blame for deaths, and reports whether it is.
func (in *incarnation) blame(r *run) bool {
	d := in.deaths.Blamed(r.claim.id, r.claim.created)
	if d == nil || r.asleepFrom != 0 { // nor did it run when its last node died
		return false
	}
	var nodes []string
	for _, of := range in.deaths.Deaths(r.claim.id, r.claim.created, time.Now()) {
		if len(nodes) < d.Count {
			nodes = append(nodes, of.Node)
		}
	}
	slices.Reverse(nodes)
	in.fault(r, Permanent(fmt.Errorf(setAside+" %d times, on %s", d.Count, strings.Join(nodes, ", "))))
	return true
}

// died returns how much more often than others the node has died within the last hour, as far
// as that is recorded, and no task explains why.
func (in *incarnation) died(ctx context.Context) (n int) {
	nodes, err := listNodes(ctx, in.config.Broker, in.node.space)
	if err != nil {
		return 0 // whoever registers notices it as well
	}
	recorded := slices.DeleteFunc(recordedDeaths(nodes), func(d Death) bool { return slices.Contains(in.node.incarnations, d.Incarnation) })
	var book deaths.Book
	book.Set(recorded, true, func(string) broker.Revision { return 0 }, time.Now())
	return book.Excess(in.config.Name, registeredIn(nodes))
}

// registeredIn returns the names of the nodes that are there.
func registeredIn(nodes *mirror.Nodes) (names []string) {
	for _, n := range nodes.Registered() {
		names = append(names, n.Name)
	}
	return names
}

// takeBack removes the records of deaths that this process has survived, while another has its
// name: nobody else would.
func (in *incarnation) takeBack(ctx context.Context) {
	nodes, err := listNodes(ctx, in.config.Broker, in.node.space)
	if err != nil {
		return // it is tried again once this node is registered
	}
	var txns []broker.Txn
	for _, d := range recordedDeaths(nodes) {
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

const (
	// probationMin is the first probation, after the second death; each further death
	// doubles it, up to ProbationMax.
	probationMin = 10 * time.Second
	// ProbationMax is the longest time for which a node that has died repeatedly is given
	// nothing.
	ProbationMax = 10 * time.Minute
)

// probation returns until when a node that has died so often is given nothing, zero for
// one that is given its share at once.
func probation(died int) time.Time {
	if died < 2 {
		return time.Time{}
	}
	return time.Now().Add(min(probationMin<<(died-2), ProbationMax)).UTC()
}

// probationStep ends the node's probation when its time is over, when a task turns out to be
// to blame, or when no other node takes tasks.
func (in *incarnation) probationStep(now time.Time) {
	if in.info.Probation.IsZero() || in.closing || in.lost || !in.fleet.Complete(in.nodes.Revision(), now) {
		return
	}
	others := slices.ContainsFunc(in.fleet.Peers(), func(p schedule.Peer) bool { return p.Closed == "" })
	if others && now.Before(in.info.Probation) && !in.deaths.excused {
		return
	}
	in.info.Probation = time.Time{}
	in.out.publishInfo()
	in.board.Reconsider()
}
