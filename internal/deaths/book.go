package deaths

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

const (
	// spreadOver is the time within which all suspects of a death are started that are
	// suspected for the first time, and stepMax the longest time between two of them.
	spreadOver = 10 * time.Second
	stepMax    = 250 * time.Millisecond
	// returnWithin is how long suspects of three deaths wait for the node to come back, so
	// that the last death counts.
	returnWithin = 5 * time.Second
	// trialStep is how long the one that is suspected most runs alone before the next is
	// started. Each further step starts twice as many. With each further death a step
	// takes twice as long, up to trialStepMax.
	trialStep    = 3 * time.Second
	trialStepMax = 24 * time.Second
	// startedWithin is when all suspects of a death have been started.
	startedWithin = returnWithin + 8*trialStepMax // of lostMax, each step starts twice as many
	// ApartFor is how much longer a node leaves a suspect to others while it tries another
	// one of the same death. The other nodes take over what a node does not claim in half of
	// that time, even if they have their share already.
	ApartFor = 5 * time.Second
)

// Book has the deaths that count.
type Book struct {
	deaths []*entry // by when they were seen
	byTask map[string][]listing
}

// entry is a death and when this process saw it.
type entry struct {
	Death
	seen time.Time
	// place is its place among all.
	place int
	// latest is how long after it the last of its suspects may be started.
	latest time.Duration
	// culprits are the tasks that it lists and that are to blame for it or a later one.
	culprits []string
}

// listing is a place in a death's list of lost claims.
type listing struct {
	in    *entry
	token broker.Revision
	// recent is true for a claim that was granted shortly before the death; after is
	// then how long after the death the task may be started.
	recent bool
	after  time.Duration
}

// Set replaces the deaths by those that are recorded now. now is the time of those that
// were not there before, or for a list that begins a copy, the latest that it can be.
// created returns the revision at which a task was created, zero for none.
func (b *Book) Set(recorded []Death, begins bool, created func(task string) broker.Revision, now time.Time) {
	known := map[string]*entry{}
	for _, e := range b.deaths {
		known[e.Incarnation] = e
	}
	b.deaths, b.byTask = nil, map[string][]listing{}
	for _, d := range recorded {
		e := &entry{Death: d, seen: now}
		if was := known[d.Incarnation]; was != nil {
			e.seen = was.seen
		} else if begins && d.At.Before(now) {
			e.seen = d.At
		}
		if now.Sub(e.seen) < Window {
			b.deaths = append(b.deaths, e)
		}
	}
	slices.SortFunc(b.deaths, func(x, y *entry) int {
		return cmp.Or(x.seen.Compare(y.seen), cmp.Compare(x.Incarnation, y.Incarnation))
	})
	for i, e := range b.deaths {
		e.place = i
		for _, d := range b.deaths {
			if l := e.find(d.Culprit); l != nil && d.find(d.Culprit) != nil && l.Token <= d.find(d.Culprit).Token {
				e.culprits = append(e.culprits, d.Culprit)
			}
		}
		for i, l := range e.Lost {
			b.byTask[l.Task] = append(b.byTask[l.Task], listing{in: e, token: l.Token, recent: i < e.Recent})
		}
		if now.Sub(e.seen) < startedWithin {
			b.schedule(e, created)
		}
	}
}

// schedule decides how long after a death each of its suspects may be started.
func (b *Book) schedule(e *entry, created func(task string) broker.Revision) {
	var once, again []string
	suspicions := map[string]int{}
	for _, l := range e.Lost[:e.Recent] {
		n := b.suspicions(l.Task, created(l.Task), e.seen)
		if suspicions[l.Task] = n; n > 1 {
			again = append(again, l.Task)
		} else {
			once = append(once, l.Task)
		}
	}
	slices.SortStableFunc(again, func(x, y string) int { return suspicions[y] - suspicions[x] })
	var step, wait time.Duration
	if len(again) > 0 {
		step = min(trialStep<<min(suspicions[again[0]]-2, 8), trialStepMax)
		if suspicions[again[0]] >= CountDefault {
			wait = returnWithin
		}
	}
	start := func(task string, after time.Duration) {
		ls := b.byTask[task]
		ls[len(ls)-1].after, e.latest = after, max(e.latest, after)
	}
	for i, task := range again {
		start(task, wait+time.Duration(bits.Len(uint(i)))*step)
	}
	for i, task := range once {
		start(task, wait+step+time.Duration(i)*min(stepMax, spreadOver/time.Duration(len(once))))
	}
}

// counting yields the deaths by which a task, created at a revision, could be suspected:
// those of its claims that no other task explains.
func (b *Book) counting(task string, created broker.Revision, now time.Time) (ls []listing) {
	for _, l := range b.byTask[task] {
		if l.counts(task, created, now) {
			ls = append(ls, l)
		}
	}
	return ls
}

func (l listing) counts(task string, created broker.Revision, now time.Time) bool {
	return l.token > created && now.Sub(l.in.seen) < Window && !l.in.explained(task)
}

// counts reports whether a death is certain enough to blame a task for it.
func (e *entry) counts(now time.Time) bool { return e.Restarted || now.Sub(e.seen) >= unheardFor }

// suspicions returns how many deaths followed shortly after a claim of a task.
func (b *Book) suspicions(task string, created broker.Revision, now time.Time) (n int) {
	for _, l := range b.byTask[task] {
		if l.recent && l.counts(task, created, now) {
			n++
		}
	}
	return n
}

// explained reports whether a task other than the given one is to blame for a death.
func (e *entry) explained(except string) bool {
	return slices.ContainsFunc(e.culprits, func(task string) bool { return task != except })
}

// find returns the claim of a task that ended with the node, nil if there is none.
func (d *Death) find(task string) *Lost {
	if task == "" {
		return nil
	}
	if i := slices.IndexFunc(d.Lost, func(l Lost) bool { return l.Task == task }); i >= 0 {
		return &d.Lost[i]
	}
	return nil
}

// Blamed returns the death for which a task was blamed that was created at a revision,
// nil if it was not.
func (b *Book) Blamed(task string, created broker.Revision) *Death {
	for _, e := range slices.Backward(b.deaths) {
		if l := e.find(task); e.Culprit == task && l != nil && l.Token > created {
			return &e.Death
		}
	}
	return nil
}

// Deaths returns the deaths with which claims of a task ended, the latest first, unless
// another task explains them. Those of nodes that may be back are included.
func (b *Book) Deaths(task string, created broker.Revision, now time.Time) (deaths []Death) {
	for _, l := range slices.Backward(b.counting(task, created, now)) {
		deaths = append(deaths, l.in.Death)
	}
	return deaths
}

// Ends returns the claims of a task that ended with its nodes, the first of them first, whoever is to
// blame.
func (b *Book) Ends(task string) (ends []mirror.End) {
	for _, l := range b.byTask[task] {
		ends = append(ends, mirror.End{Node: l.in.Node, Token: l.token, At: l.in.At, Late: l.in.Late, Process: l.in.Process})
	}
	return ends
}

// Unexplained returns how often a node has died without a task to blame.
func (b *Book) Unexplained(node string) (n int) {
	for _, e := range b.deaths {
		if e.Node == node && !e.explained("") {
			n++
		}
	}
	return n
}

// Excess returns how much more often than half of the others a node has died without a task to
// blame. Where all die it is not the node: something goes round. nodes are those that are there,
// which counts those that died anyway.
func (b *Book) Excess(node string, nodes []string) int {
	died := map[string]int{}
	for _, other := range nodes {
		died[other] = 0
	}
	for _, e := range b.deaths {
		died[e.Node] += 0
		if !e.explained("") {
			died[e.Node]++
		}
	}
	n := died[node]
	delete(died, node)
	if len(died) == 0 {
		return n
	}
	return n - slices.Sorted(maps.Values(died))[len(died)/2]
}

// Excused reports whether a task is to blame for the latest death of a node.
func (b *Book) Excused(node string) bool {
	for _, e := range slices.Backward(b.deaths) {
		if e.Node == node {
			return e.explained("")
		}
	}
	return false
}

// Empty reports whether no death counts.
func (b *Book) Empty() bool { return len(b.deaths) == 0 }

// Losses returns how many claims of a task have ended with their nodes.
func (b *Book) Losses(task string) int { return len(b.byTask[task]) }

// OpenAt returns the time before which a suspect is not to be started, zero for a task
// that is none.
func (b *Book) OpenAt(task string, created broker.Revision, now time.Time) time.Time {
	ls := b.counting(task, created, now)
	if len(ls) == 0 || !ls[len(ls)-1].recent || b.Blamed(task, created) != nil {
		return time.Time{}
	}
	l := ls[len(ls)-1]
	return l.in.seen.Add(l.after)
}

// Rivals returns the other suspects of the last death of a task that has been suspected
// before. If one node tries them together and dies, they remain equally suspected.
func (b *Book) Rivals(task string, created broker.Revision, now time.Time) (others []string) {
	ls := b.counting(task, created, now)
	if len(ls) == 0 || !ls[len(ls)-1].recent || b.suspicions(task, created, now) < 2 {
		return nil
	}
	last := ls[len(ls)-1].in
	for _, l := range last.Lost[:last.Recent] {
		if l.Task != task {
			others = append(others, l.Task)
		}
	}
	return others
}

// StillUntil returns until when the suspects of the last deaths are tried, zero if there
// are none. ttl is how long it takes to notice another death. Nothing is moved until
// then: what moves would be interrupted, and lost with the next node as well. If the
// culprit is found, only the node that has died is given the time to come back.
func (b *Book) StillUntil(ttl time.Duration) (until time.Time) {
	for _, e := range b.deaths {
		if e.Recent == 0 {
			continue
		}
		at := e.seen.Add(trialStep)
		if !e.explained("") {
			at = at.Add(e.latest + ApartFor + ttl)
		}
		if at.After(until) {
			until = at
		}
	}
	return until
}

// Has reports whether the death of an incarnation is recorded.
func (b *Book) Has(incarnation string) bool {
	return slices.ContainsFunc(b.deaths, func(e *entry) bool { return e.Incarnation == incarnation })
}

// Culprit returns the task that is to blame for the death of an incarnation, empty if that is
// not known.
func (b *Book) Culprit(incarnation string) string {
	for _, e := range b.deaths {
		if e.Incarnation == incarnation {
			return e.Culprit
		}
	}
	return ""
}

// Suspects returns the tasks that the deaths list as suspects.
func (b *Book) Suspects() (tasks []string) {
	for _, e := range b.deaths {
		for _, l := range e.Lost[:e.Recent] {
			tasks = append(tasks, l.Task)
		}
	}
	return tasks
}
