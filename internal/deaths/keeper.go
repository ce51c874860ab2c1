package deaths

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

const (
	// RecordAfter is how long the nodes wait for the first of them to record a death, before
	// they all try.
	RecordAfter = 500 * time.Millisecond
	// forgetEvery is how often a node looks for records of deaths that no longer count, while
	// there are any.
	forgetEvery = 10 * time.Minute
)

// Node is the node of a Keeper, which asks it in the goroutine of its caller.
type Node struct {
	Name  string
	Space keys.Space
	// TTL is that of its session.
	TTL   time.Duration
	Nodes *mirror.Nodes
	Tasks *mirror.Tasks
	// Since returns the revision at which it registered.
	Since func() broker.Revision
	// Working reports whether it works: one that stops, or has lost its session, records nothing.
	Working func() bool
	// Survived reports whether an incarnation was one of this process.
	Survived func(incarnation string) bool
	// Limit returns how many deaths set a task aside, zero if no number does.
	Limit func(t *mirror.Task) int
	// Held returns what it holds of a task, false if it does not hold it.
	Held func(task string) (Held, bool)
	// Put stores something about the records at a time, instead of what was put under the same name before.
	Put func(name string, txn broker.Txn, at time.Time)
}

// Held is a claim of the node.
type Held struct {
	// Token is its fencing token, and Created the revision at which the task was created.
	Token, Created broker.Revision
	// AsleepFrom is the token of the claim since which the task has slept or been paused, zero if it has not.
	AsleepFrom broker.Revision
}

// Keeper keeps the records of deaths for a node: it records those of others, answers those of its own, and judges
// which task is to blame.
type Keeper struct {
	*Watcher
	Book
	node Node
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

// NewKeeper returns the keeper of a node.
func NewKeeper(n Node) *Keeper { return &Keeper{Watcher: NewWatcher(n.TTL), node: n} }

// IsYounger reports whether another node has been there for longer, and so has seen more
// of what the dead have claimed.
func (k *Keeper) IsYounger() bool {
	since := k.node.Since()
	return slices.ContainsFunc(k.node.Nodes.Registered(), func(n *mirror.Node) bool { return n.Created < since })
}

// Excused reports whether a task is to blame for the last death of the node.
func (k *Keeper) Excused() bool { return k.excused }

// Slept notes that a task which the node has claimed slept. Of the deaths that list it it is innocent.
func (k *Keeper) Slept(task string) { k.stale = k.stale || k.Losses(task) > 0 }

// fleet returns what is known of the tasks to judge deaths by.
func (k *Keeper) fleet() Fleet {
	sums := k.node.Tasks.Sums()
	return Fleet{Limits: k.limits, Tasks: sums.Owned + sums.Unowned}
}

// limits returns what decides whether a task is set aside, false if it has ended.
func (k *Keeper) limits(id string) (l Limits, ok bool) {
	t := k.node.Tasks.Get(id)
	if t == nil {
		return l, false
	}
	return Limits{Created: t.Created, Deaths: k.node.Limit(t)}, true
}

// RecordDied records the deaths whose claims are all known by now, and returns them.
func (k *Keeper) RecordDied(now time.Time) []Death {
	if !k.node.Working() {
		return nil
	}
	died := k.Died(k.node.Tasks.Revision(), now)
	for _, d := range died {
		at := now
		if k.IsYounger() {
			at = now.Add(RecordAfter)
		}
		k.node.Put(d.Incarnation, k.Record(&d, now), at) // its node may never be back, nor those before
	}
	return died
}

// Record judges a death, and returns the transaction that records it and deletes what is outdated by it.
func (k *Keeper) Record(d *Death, now time.Time) broker.Txn {
	k.Judge(d, k.fleet(), now)
	return k.record(d)
}

func (k *Keeper) record(d *Death) broker.Txn {
	key := k.node.Space.NodeDeath(d.Node, d.Incarnation)
	txn := broker.Txn{If: []broker.Cond{broker.Absent(key)}, Then: []broker.Op{broker.Put(key, d.Encode())}}
	for _, old := range Outdated(Recorded(k.node.Nodes), d.Node) {
		txn.Then = append(txn.Then, broker.Delete(k.node.Space.NodeDeath(d.Node, old.Incarnation)))
	}
	return txn
}

// Succeed notes which process died under the node's name before, empty for none, and how its claims
// ended: p has them, nil if they are not known. Where others were registered they have seen more, and record it,
// unless they have died as well. It returns the registration of a predecessor of which this node alone knows, whose end
// it has seen.
func (k *Keeper) Succeed(dead string, p *Predecessor, now time.Time) (gone *mirror.Gone) {
	if dead == "" {
		return nil
	}
	if k.Inherit(dead, now); p == nil {
		return nil
	}
	if !p.alone {
		lost := make([]Lost, len(p.held))
		for i, e := range p.held {
			lost[i] = Lost{Task: e.Task, Token: e.Token}
		}
		d := Followed(k.node.Name, dead, lost, func(l Lost) bool { return l.Token > p.settled }, now)
		k.node.Put(dead, k.record(&d), now.Add(2*RecordAfter))
		return nil
	}
	if p.settled > 0 {
		k.Mark(p.settled, p.settledAt)
	}
	for _, e := range p.held {
		e.At = k.node.Since() // or a little earlier
		k.Ended(e)
	}
	return &mirror.Gone{Info: p.info, Session: p.session, At: k.node.Since()}
}

// News is what has changed in the records of deaths.
type News struct {
	// Died are deaths that are new, or of which it is new who is to blame.
	Died []Death
	// Look are tasks to look at again.
	Look []string
	// Release are tasks to give back: who claims them sets them aside.
	Release []string
	// Refuted are tasks that were set aside wrongly.
	Refuted []Refuted
}

// Read reads the records of deaths again if they have changed, and answers them: it takes those back of sessions that
// this process has survived, and acquits tasks that slept.
func (k *Keeper) Read(now time.Time) (news News) {
	k.stale = k.node.Nodes.DeathsChanged() || k.stale
	if !k.stale || k.node.Tasks.Revision() == 0 {
		return news
	}
	k.stale = false
	recorded, known := Recorded(k.node.Nodes), k.Book
	k.Set(recorded, !k.listed, k.node.Tasks.CreatedAt, now)
	k.ForgetLater(now)
	k.excused = k.Book.Excused(k.node.Name) && k.Excess(k.node.Name, registeredIn(k.node.Nodes)) < 2
	news.Look = append(k.Suspects(), k.Inherited(k.Has)...)
	for _, d := range recorded {
		if k.listed && (!known.Has(d.Incarnation) || d.Culprit != known.Culprit(d.Incarnation) && d.Culprit != "") {
			news.Died = append(news.Died, d)
		}
		if d.Node == k.node.Name {
			k.answer(d, now)
		}
		k.acquit(d, now)
		if k.convicts(&d) {
			news.Release = append(news.Release, d.Culprit)
		}
	}
	k.listed = true
	if k.node.Working() && !k.IsYounger() {
		news.Refuted = k.Refuted(k.fleet().Tasks, now)
	}
	return news
}

// convicts reports whether the node runs the task that is to blame for a death.
func (k *Keeper) convicts(d *Death) bool {
	held, ok := k.node.Held(d.Culprit)
	if d.Culprit == "" || !ok || held.AsleepFrom != 0 || k.Blamed(d.Culprit, held.Created) == nil {
		return false
	}
	// The run that has died with its process is over, or about to be.
	return d.Process == "" || !slices.Contains(d.Lost, Lost{Task: d.Culprit, Token: held.Token})
}

// acquit removes the tasks from the record of a death that this node has claimed since, and
// that were asleep when the node died: the stored state, of that claim or one before, says so.
func (k *Keeper) acquit(d Death, now time.Time) {
	innocent := func(l Lost) bool {
		held, ok := k.node.Held(l.Task)
		return ok && held.AsleepFrom != 0 && held.AsleepFrom <= l.Token && l.Token < held.Token
	}
	if k.node.Working() && slices.ContainsFunc(d.Lost, innocent) {
		d.Acquit(innocent)
		k.rewrite(d, now)
	}
}

// answer takes back the record of a death of this node that this process has survived,
// and confirms any other.
func (k *Keeper) answer(d Death, now time.Time) {
	switch {
	case !k.node.Working() || d.Restarted:
	case k.node.Survived(d.Incarnation):
		k.forget(k.node.Space.NodeDeath(d.Node, d.Incarnation), now)
	default:
		d.Restarted = true
		k.rewrite(d, now)
	}
}

// rewrite judges a death again, and stores what has become of its record.
func (k *Keeper) rewrite(d Death, now time.Time) {
	key := k.node.Space.NodeDeath(d.Node, d.Incarnation)
	k.Judge(&d, k.fleet(), now)
	k.node.Put(key, d.Rewrite(key), now)
}

func (k *Keeper) forget(key string, now time.Time) {
	k.node.Put(key, broker.Txn{Then: []broker.Op{broker.Delete(key)}}, now)
}

// ForgetLater schedules when to look for what no longer counts, deaths or promises to be back.
func (k *Keeper) ForgetLater(now time.Time) {
	switch {
	case !k.node.Nodes.HasDeaths() && len(k.node.Nodes.Promised()) == 0:
		k.forgetAt = time.Time{}
	case k.forgetAt.IsZero():
		k.forgetAt = now.Add(forgetEvery)
	}
}

// ForgetAt returns when Forget is due, zero for never.
func (k *Keeper) ForgetAt() time.Time { return k.forgetAt }

// Forget deletes the records of deaths that no longer count, when that is due, and reports whether this node is to
// delete other things that no longer count as well.
func (k *Keeper) Forget(now time.Time) bool {
	if k.forgetAt.IsZero() || now.Before(k.forgetAt) {
		return false
	}
	k.forgetAt = now.Add(forgetEvery)
	if k.IsYounger() {
		return false
	}
	k.node.Nodes.Deaths(func(node, incarnation string, kv broker.KV) {
		if d, ok := Parse(node, incarnation, kv); !ok || now.Sub(d.At) >= Window {
			k.forget(k.node.Space.NodeDeath(node, incarnation), now)
		}
	})
	return true
}

// Apart returns the time before which a task is not to be claimed because its last claim has ended, or may have, with
// the death of its node. busyWith reports whether the node is busy with a task.
func (k *Keeper) Apart(t *mirror.Task, busyWith func(id string) bool, now time.Time) time.Time {
	if until := k.Undecided(t.ID, k.node.Nodes.Revision(), k.Has); until.After(now) {
		return until
	}
	if until := k.Inherits(t, k.Has, now); until.After(now) {
		return until
	}
	at := k.OpenAt(t.ID, t.Created, now)
	if slices.ContainsFunc(k.Rivals(t.ID, t.Created, now), busyWith) {
		at = at.Add(ApartFor)
	}
	if k.Losses(t.ID) > 0 {
		nodes := k.node.Nodes.Registered()
		place := slices.IndexFunc(nodes, func(n *mirror.Node) bool { return n.Name == k.node.Name })
		for _, until := range []time.Time{k.Watcher.Scatter(t.ID, place), k.Book.Scatter(t.ID, place)} {
			if len(nodes) > 1 && until.After(at) {
				at = until
			}
		}
	}
	return at
}

// registeredIn returns the names of the nodes that are there.
func registeredIn(nodes *mirror.Nodes) (names []string) {
	for _, n := range nodes.Registered() {
		names = append(names, n.Name)
	}
	return names
}
