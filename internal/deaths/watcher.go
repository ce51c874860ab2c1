package deaths

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

const (
	// markEvery is how often the revision is noted, to tell later how old a claim was.
	markEvery = 500 * time.Millisecond
	// keptFor is how long the end of a claim is remembered: the copy of the nodes may
	// show the reason later.
	keptFor = 30 * time.Second
	// shownWithin is how long the copy of the nodes may take to show that a node is gone
	// whose claims are, before they count as released. recordedWithin is how long the
	// record of a death may take from then on.
	shownWithin    = 250 * time.Millisecond
	recordedWithin = time.Second
)

// Gone is a node whose registration has gone without notice.
type Gone struct {
	Name, Incarnation string
	Session           broker.SessionID
	// At is the revision of its end, TTL that of its session.
	At  broker.Revision
	TTL time.Duration
}

// Watcher finds out which claims ended with a node. The copies of tasks and nodes show
// the end of a session each for itself, in any order.
type Watcher struct {
	// ttl is that of this node, to guess that of others by.
	ttl time.Duration
	// began is when the copy of tasks was there first, up to the revision from.
	began time.Time
	from  broker.Revision
	marks []mark
	// ending are claims that have ended since Shown. Most end with their tasks.
	ending []mirror.Ended
	ended  map[string]ended // by task
	gone   map[broker.SessionID]gone
	heir   *heir // nil for who has followed no dead process
}

// mark is the revision of the copy of tasks at a time.
type mark struct {
	revision broker.Revision
	at       time.Time
}

type ended struct {
	mirror.Ended
	// handed is true if the task was released for a certain node.
	handed bool
	seen   time.Time
}

type gone struct {
	Gone
	seen time.Time
	told bool
}

// NewWatcher returns the watcher of a node whose session has a TTL.
func NewWatcher(ttl time.Duration) *Watcher {
	return &Watcher{ttl: ttl, ended: map[string]ended{}, gone: map[broker.SessionID]gone{}}
}

// Mark records at which revision the store was at a time before the copy of tasks was there.
func (w *Watcher) Mark(revision broker.Revision, at time.Time) {
	w.marks = append(w.marks, mark{revision: revision, at: at})
}

// Ended records the end of a claim that the copy of tasks shows.
func (w *Watcher) Ended(e mirror.Ended) { w.ending = append(w.ending, e) }

// Shown records that the copy of tasks has applied an update.
func (w *Watcher) Shown(tasks *mirror.Tasks, now time.Time) {
	revision := tasks.Revision()
	if w.began.IsZero() {
		w.began, w.from = now, revision
	}
	m := mark{revision: revision, at: now}
	if n := len(w.marks); n > 1 && now.Sub(w.marks[n-2].at) < markEvery {
		w.marks[n-1] = m
	} else {
		w.marks = append(w.marks, m)
		w.forget(now)
	}
	for _, e := range w.ending {
		if t := tasks.Get(e.Task); t != nil {
			w.ended[e.Task] = ended{Ended: e, handed: t.For != "", seen: now}
		}
	}
	w.ending = w.ending[:0]
}

// forget drops what is too old to matter.
func (w *Watcher) forget(now time.Time) {
	for len(w.marks) > 1 && now.Sub(w.marks[1].at) > RecentFor+keptFor+4*w.ttl {
		w.marks = w.marks[1:]
	}
	maps.DeleteFunc(w.ended, func(_ string, e ended) bool { return now.Sub(e.seen) > keptFor })
	maps.DeleteFunc(w.gone, func(_ broker.SessionID, g gone) bool { return now.Sub(g.seen) > keptFor })
}

// since returns the revision of the copy of tasks at a time. It is zero if the copy is
// younger, so that every claim may be a recent one.
func (w *Watcher) since(at time.Time) broker.Revision {
	later := sort.Search(len(w.marks), func(i int) bool { return w.marks[i].at.After(at) })
	if later == 0 {
		return 0
	}
	return w.marks[later-1].revision
}

// Gone records that a node has gone without notice.
func (w *Watcher) Gone(g Gone, now time.Time) { w.gone[g.Session] = gone{Gone: g, seen: now} }

// attestAfter is how many TTLs after it has come a node can tell when a session ended: whoever did not
// renew it before that has been ended by then.
const attestAfter = 3

// sawLife reports whether the holder of a claim that was seen to end at a time was alive since the copy
// began, so that it had been dead for no longer than its session lasts.
func (w *Watcher) sawLife(token broker.Revision, at time.Time) bool {
	return token > w.from || at.Sub(w.began) >= attestAfter*w.ttl
}

// Judged returns the end of a claim that this node's copy has shown, late if the holder may have been
// dead before that began.
func (w *Watcher) Judged(e mirror.End) mirror.End {
	e.Late = !w.sawLife(e.Token, e.At)
	return e
}

// Died returns the deaths whose claims the copy of tasks, complete up to a revision, has
// all seen end, each once.
func (w *Watcher) Died(revision broker.Revision, now time.Time) (deaths []Death) {
	for session, g := range w.gone {
		if g.told || revision < g.At {
			continue
		}
		g.told = true
		w.gone[session] = g
		d := Death{Node: g.Name, Incarnation: g.Incarnation, At: now.UTC()}
		var lost []Lost
		for _, e := range w.ended {
			if e.Session == session && e.At >= g.At {
				lost = append(lost, Lost{Task: e.Task, Token: e.Token})
			}
		}
		since := w.since(g.seen.Add(-g.TTL - RecentFor))
		d.Late = !slices.ContainsFunc(lost, func(l Lost) bool { return w.sawLife(l.Token, now) })
		d.list(lost, func(l Lost) bool { return l.Token > since })
		deaths = append(deaths, d)
	}
	return deaths
}

// scatterFor is how long half of the nodes leave a task alone that has died again.
const scatterFor = 2 * time.Second

// Scatter returns until when a node leaves a task to others that has died with its node,
// and not for the first time: a task that kills its nodes only after a while, and others
// that always went to the same node with it, are to part. place is that of the node among
// all. Those with even places take half of the tasks first, by chance, and the others the
// other half.
func (w *Watcher) Scatter(task string, place int) time.Time {
	e := w.ended[task]
	if g, isGone := w.gone[e.Session]; !isGone || e.At < g.At {
		return time.Time{}
	}
	return scatter(fmt.Sprint(e.Session), task, place, e.seen)
}

// Scatter is Watcher.Scatter for tasks that have died with a process of their node, more than once: the
// node goes on, so only the record says it.
func (b *Book) Scatter(task string, place int) time.Time {
	n := len(b.byTask[task])
	if n < 2 || b.byTask[task][n-1].in.Process == "" {
		return time.Time{}
	}
	e := b.byTask[task][n-1].in
	return scatter(e.Incarnation, task, place, e.seen)
}

// scatter returns until when a node leaves a task to others that has died at a time.
func scatter(death, task string, place int, at time.Time) time.Time {
	h := fnv.New32a()
	fmt.Fprint(h, death, task)
	if h.Sum32()>>8%2 == uint32(place%2) {
		return time.Time{}
	}
	return at.Add(scatterFor)
}

// Undecided returns until when a task without an owner is not to be claimed, because its
// last claim, which was granted only recently, may have ended with its node; zero if that
// is settled. shown is the revision up to which the copy of nodes is complete.
func (w *Watcher) Undecided(task string, shown broker.Revision, recorded func(incarnation string) bool) time.Time {
	e, known := w.ended[task]
	if !known || e.handed || e.Token <= w.since(e.seen.Add(-w.ttl-RecentFor)) {
		return time.Time{}
	}
	if g, isGone := w.gone[e.Session]; isGone {
		if e.At < g.At || recorded(g.Incarnation) {
			return time.Time{}
		}
		return g.seen.Add(recordedWithin)
	}
	if shown >= e.At {
		return time.Time{}
	}
	return e.seen.Add(shownWithin)
}
