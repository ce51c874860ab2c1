package history

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// ViolationsMax limits how many violations are kept; one is enough to fail.
const ViolationsMax = 100

// Counts counts what a log has seen.
type Counts struct {
	// Revisions and Events of the store.
	Revisions, Events int
	// Submitted tasks, Grants of claims, HandOvers among them that were not a
	// task's first, Completed tasks and, of these, Duplicated ones that had
	// completed before and were not submitted again.
	Submitted, Grants, HandOvers, Completed, Duplicated int
	// Forgotten counts the tasks that had ended and of which nothing is left.
	Forgotten int
	// Led counts the writes of leaders of elections.
	Led int
}

// Observer is called for changes of tasks and claims, in order; all of its functions
// must be set.
type Observer struct {
	// Created: a task came to exist, at a revision. Vanished: it no longer exists;
	// owner is the claim that ended with it, zero for none.
	Created  func(id string, at broker.Revision)
	Vanished func(id string, owner broker.Revision)
	// Granted: a claim began. Lost: it ended by itself.
	Granted func(id string, token broker.Revision)
	Lost    func(id string, token broker.Revision)
}

// Log is the history of one namespace.
type Log struct {
	// Observer, if set, is called for every applied revision.
	Observer *Observer
	// Unannounced skips I5 and I12, for a caller that announces nothing.
	Unannounced bool
	// Conditions is for how many of the tasks that a task names as its needs its claim has
	// conditions. Of the others those that were there at the grant must have ended when
	// a handler begins: see Begins.
	Conditions int
	// Term, if set, returns the election and the term of a key that only a leader
	// writes. It is called for keys that are not Windlass's.
	Term func(kv broker.KV) (election string, token broker.Revision, ok bool)

	space  keys.Space
	counts Counts
	wrong  []string

	revision broker.Revision
	// sessionOf has the session of each key that has one; alive has the keys of each
	// session.
	sessionOf map[string]broker.SessionID
	alive     map[broker.SessionID]map[string]bool
	tasks     map[string]*task
	// skipping has the claims that are allowed only to kill the task.
	skipping map[claim]bool
	// late has the tasks that a claim is not to run before and has no condition for, by
	// the revisions at which they came to exist, as they were at the grant.
	late map[claim]map[string]broker.Revision
	// carrying has the claims of clients, which only carry out a command.
	carrying map[claim]bool
	lines    lines
	// cordons has when each node was cordoned.
	cordons map[string]time.Time
	// paused has the types that are paused, resumed when each was resumed last.
	paused  map[string]bool
	resumed map[string]time.Time
	// deaths has the incarnations that were ever recorded as dead, by the tasks that they
	// held. A record is withdrawn when the node is back.
	deaths map[string]map[string]bool

	mu sync.Mutex // guards the announcements
	// endings are the claims that a node asked to end, deleting the tasks that a client
	// asked to delete, unblocking the failures that a client asked to forget although
	// tasks wait for them, byHand the keys that an operator wrote.
	endings    map[claim]bool
	deleting   map[string]bool
	unblocking map[string]bool
	byHand     map[string]bool
}

// task is what the log knows of one task at the current revision.
type task struct {
	exists bool
	// created is the revision at which it came to exist.
	created broker.Revision
	// needs has the tasks that it waits for, by its spec, written at since.
	needs []string
	since time.Time
	// owner is the token of the live claim, last that of the latest, zero for
	// none.
	owner, last broker.Revision
	state       statemachine.State
	// changedAt and changedBy are the time and the token in the state.
	changedAt time.Time
	changedBy int64
	// forgotten is the state in which it ended, once that is deleted.
	forgotten statemachine.State
	// unreadable is set if the state cannot be parsed.
	unreadable bool
	// told has the messages sent to the task since it came to exist.
	told map[statemachine.Message]bool
	// slot is the message that waits for its holder, empty for none.
	slot statemachine.Message
	// failed is its failure mark, and wants the one that it is to leave if it fails.
	failed, wants mark
	newer         newer
}

type claim struct {
	id    string
	token broker.Revision
}

// New returns the log of an empty namespace.
func New(namespace string) (*Log, error) {
	space, err := keys.New(namespace)
	if err != nil {
		return nil, err
	}
	return &Log{
		Conditions: 63, space: space, sessionOf: map[string]broker.SessionID{}, alive: map[broker.SessionID]map[string]bool{},
		tasks: map[string]*task{}, skipping: map[claim]bool{}, late: map[claim]map[string]broker.Revision{}, carrying: map[claim]bool{}, lines: lines{}, cordons: map[string]time.Time{}, paused: map[string]bool{}, resumed: map[string]time.Time{},
		deaths:  map[string]map[string]bool{},
		endings: map[claim]bool{}, deleting: map[string]bool{}, unblocking: map[string]bool{}, byHand: map[string]bool{},
	}, nil
}

// Ending announces that a node asks to release or to finish a claim.
func (l *Log) Ending(id string, token broker.Revision) { announce(l, l.endings, claim{id, token}) }

// Deleting announces that a client asks to delete a task.
func (l *Log) Deleting(id string) { announce(l, l.deleting, id) }

// Unblocking announces that a client asks to forget a failure even if tasks wait for it.
func (l *Log) Unblocking(id string) { announce(l, l.unblocking, id) }

// ByHand announces that an operator writes or deletes a key. Changes of that key are
// not checked from then on.
func (l *Log) ByHand(key string) { announce(l, l.byHand, key) }

func announce[K comparable](l *Log, set map[K]bool, key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set[key] = true
}

// Violations returns the first violations, in order.
func (l *Log) Violations() []string { return slices.Clone(l.wrong) }

// Counts returns the counts so far.
func (l *Log) Counts() Counts { return l.counts }

// Revision returns the last applied revision.
func (l *Log) Revision() broker.Revision { return l.revision }

// Live returns the current claims, by task.
func (l *Log) Live() map[string]broker.Revision {
	live := map[string]broker.Revision{}
	for id, t := range l.tasks {
		if t.owner != 0 {
			live[id] = t.owner
		}
	}
	return live
}

// Task reports whether a task exists, and returns its state, empty for none.
func (l *Log) Task(id string) (exists bool, state statemachine.State) {
	if t := l.tasks[id]; t != nil {
		return t.exists, t.state
	}
	return false, ""
}

// Created returns the revision at which a task last came to exist; zero for never.
func (l *Log) Created(id string) broker.Revision {
	if t := l.tasks[id]; t != nil {
		return t.created
	}
	return 0
}

// Ended returns the state in which a task ended, even if that was deleted since; empty
// if it has not ended or exists.
func (l *Log) Ended(id string) statemachine.State {
	switch t := l.tasks[id]; {
	case t == nil, t.exists:
		return ""
	case t.state.Terminal():
		return t.state
	default:
		return t.forgotten
	}
}

// Revisions yields the events of each revision, in order.
func Revisions(events []broker.Event) iter.Seq[[]broker.Event] {
	return func(yield func([]broker.Event) bool) {
		for len(events) > 0 {
			n := slices.IndexFunc(events, func(e broker.Event) bool { return e.KV.Modified != events[0].KV.Modified })
			if n < 0 {
				n = len(events)
			}
			if !yield(events[:n]) {
				return
			}
			events = events[n:]
		}
	}
}

// Apply checks events, in order and in whole revisions.
func (l *Log) Apply(events []broker.Event) {
	for group := range Revisions(events) {
		rev := group[0].KV.Modified
		if rev <= l.revision {
			l.complain("revision %d comes after %d", rev, l.revision)
		}
		l.revision = rev
		l.applyRevision(group)
	}
}

func (l *Log) complain(format string, args ...any) {
	if len(l.wrong) < ViolationsMax {
		l.wrong = append(l.wrong, fmt.Sprintf("revision %d: %s", l.revision, fmt.Sprintf(format, args...)))
	}
}

// applyRevision checks the events of one revision against the state before it, and then
// applies them.
func (l *Log) applyRevision(group []broker.Event) {
	l.counts.Revisions++
	l.counts.Events += len(group)
	ended := l.sessionsEnded(group)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range group {
		p := l.space.Parse(e.KV.Key)
		switch {
		case l.byHand[e.KV.Key]:
		case p.Kind == keys.State:
			l.checkState(e, p.Name)
			l.checkNewerState(e, p.Name)
		case p.Kind == keys.History:
			l.checkNewerHistory(e, p.Name)
		case p.Kind == keys.Owner && e.Deleted:
			l.checkRelease(p.Name, ended[e.KV.Key])
		case p.Kind == keys.Owner:
			l.checkGrant(e, p.Name)
		case p.Kind == keys.Task && e.Deleted:
			l.checkGone(p.Name, group)
		case p.Kind == keys.Failed && e.Deleted:
			l.checkForgotten(p.Name, group)
		case p.Kind == keys.TaskCommand && e.Deleted:
			l.checkHandled(p.Name, group)
		case p.Kind == keys.NodeInfo:
			l.checkRegistration(e)
		case p.Kind == keys.Candidate:
			l.checkCandidate(e, p.Name)
		case p.Kind == keys.Unknown:
			l.checkUnknown(e)
			l.checkLed(e)
		}
	}
	if l.Observer != nil {
		l.observe(group)
	}
	for _, e := range group {
		l.take(e)
	}
}

// observe calls the observer for a revision that is not applied yet.
func (l *Log) observe(group []broker.Event) {
	for _, e := range group {
		p := l.space.Parse(e.KV.Key)
		switch t := l.tasks[p.Name]; {
		case p.Kind == keys.Task && e.Deleted && l.deletes(group, l.space.Owner(p.Name)):
			l.Observer.Vanished(p.Name, t.owner)
		case p.Kind == keys.Task && e.Deleted:
			l.Observer.Vanished(p.Name, 0)
		case p.Kind == keys.Task && (t == nil || !t.exists):
			l.Observer.Created(p.Name, e.KV.Created)
		case p.Kind != keys.Owner:
		case !e.Deleted && e.KV.Session != 0:
			l.Observer.Granted(p.Name, e.KV.Created)
		case t == nil || t.owner == 0: // written by an operator, and no claim
		case !l.deletes(group, l.space.Task(p.Name)):
			l.Observer.Lost(p.Name, t.owner)
		}
	}
}

// sessionsEnded returns, for each key that is deleted at this revision, whether all keys
// of its session are.
func (l *Log) sessionsEnded(group []broker.Event) map[string]bool {
	ended := map[string]bool{}
	for _, e := range group {
		id := l.sessionOf[e.KV.Key]
		if e.Deleted && id != 0 {
			delete(l.alive[id], e.KV.Key)
		}
	}
	for _, e := range group {
		if id := l.sessionOf[e.KV.Key]; e.Deleted && id != 0 {
			ended[e.KV.Key] = len(l.alive[id]) == 0
		}
	}
	return ended
}

func (l *Log) task(id string) *task {
	t := l.tasks[id]
	if t == nil {
		t = &task{}
		l.tasks[id] = t
	}
	return t
}

// take applies an event that was checked.
func (l *Log) take(e broker.Event) {
	l.takeSession(e)
	p := l.space.Parse(e.KV.Key)
	switch p.Kind {
	case keys.Task:
		l.takeTask(e, l.task(p.Name))
	case keys.Owner:
		l.takeOwner(e, l.task(p.Name))
	case keys.State:
		l.takeState(e, l.task(p.Name))
	case keys.History:
		l.task(p.Name).takeHistory(e)
	case keys.TaskCommand:
		l.takeCommand(e, l.task(p.Name))
	case keys.Failed:
		l.task(p.Name).failed = readMark(e)
	case keys.Candidate:
		l.lines.take(e, p.Name)
	case keys.NodeCordon:
		if _, there := l.cordons[p.Name]; e.Deleted {
			delete(l.cordons, p.Name)
		} else if !there {
			l.cordons[p.Name] = time.Now()
		}
	case keys.TypePause:
		if l.paused[p.Name] = !e.Deleted; e.Deleted {
			l.resumed[p.Name] = time.Now()
		}
	case keys.NodeDeath:
		l.takeDeath(e, p.Incarnation)
	}
}

func (l *Log) takeDeath(e broker.Event, incarnation string) {
	var d struct{ Lost []struct{ Task string } }
	if e.Deleted || json.Unmarshal(e.KV.Value, &d) != nil {
		return
	}
	for _, lost := range d.Lost {
		if l.deaths[lost.Task] == nil {
			l.deaths[lost.Task] = map[string]bool{}
		}
		l.deaths[lost.Task][incarnation] = true
	}
}

// Deaths returns how many incarnations of nodes were ever recorded as dead that held a
// task.
func (l *Log) Deaths(id string) int { return len(l.deaths[id]) }

func (l *Log) takeCommand(e broker.Event, t *task) {
	t.slot = ""
	if c, err := statemachine.ParseCommand(e.KV.Value); err == nil && !e.Deleted {
		if t.told == nil {
			t.told = map[statemachine.Message]bool{}
		}
		t.told[c.Message], t.slot = true, c.Message
	}
}

func (l *Log) takeSession(e broker.Event) {
	key := e.KV.Key
	if old := l.sessionOf[key]; old != 0 {
		delete(l.alive[old], key)
		delete(l.sessionOf, key)
		if len(l.alive[old]) == 0 {
			delete(l.alive, old)
		}
	}
	if id := e.KV.Session; id != 0 && !e.Deleted {
		l.sessionOf[key] = id
		if l.alive[id] == nil {
			l.alive[id] = map[string]bool{}
		}
		l.alive[id][key] = true
	}
}

func (l *Log) takeTask(e broker.Event, t *task) {
	if e.Deleted {
		t.exists, t.needs = false, nil
		return
	}
	if !t.exists {
		l.counts.Submitted++
		t.created, t.told, t.forgotten = e.KV.Modified, nil, ""
	}
	var spec struct {
		Needs     []string `json:"needs"`
		OnFailure string   `json:"on_failure"`
	}
	if json.Unmarshal(e.KV.Value, &spec) != nil {
		spec.Needs = nil // a task with an unreadable spec is not claimed
	}
	t.exists, t.needs, t.since = true, spec.Needs, time.Now()
	t.wants = mark{there: spec.OnFailure != "run", skips: spec.OnFailure == "skip"}
}

func (l *Log) takeOwner(e broker.Event, t *task) {
	switch {
	case e.Deleted || e.KV.Session == 0: // the latter is no claim
		t.owner = 0
	case t.owner != e.KV.Created:
		l.counts.Grants++
		if t.last != 0 {
			l.counts.HandOvers++
		}
		t.owner, t.last = e.KV.Created, e.KV.Created
	}
}

func (l *Log) takeState(e broker.Event, t *task) {
	t.newer.state = !e.Deleted && hasNewer(e.KV.Value)
	if e.Deleted {
		if !t.exists && t.state.Terminal() {
			t.forgotten = t.state
			l.counts.Forgotten++
		}
		t.state, t.unreadable, t.changedAt = "", false, time.Time{}
		return
	}
	r, err := statemachine.Parse(e.KV.Value)
	if t.unreadable = err != nil; err != nil {
		return
	}
	if r.State == statemachine.Completed {
		l.counts.Completed++
		if t.state == statemachine.Completed {
			l.counts.Duplicated++
		}
	}
	t.state, t.changedBy = r.State, r.Token
	if r.ChangedAt != nil {
		t.changedAt = *r.ChangedAt
	}
}

// blockers returns the tasks that a task waits for, and how many of them it names: the
// others are those that are below a job of which it needs all.
func (l *Log) blockers(id string) (all []string, named int) {
	var trees []string
	for _, b := range depend.Blockers(id, l.task(id).needs) {
		if job, below := depend.Tree(b); below {
			trees = append(trees, job)
		} else {
			all = append(all, b)
		}
	}
	named = len(all)
	for other := range l.tasks {
		if slices.ContainsFunc(trees, func(job string) bool { return depend.IsBelow(other, job) }) {
			all = append(all, other)
		}
	}
	slices.Sort(all[named:])
	return all, named
}
