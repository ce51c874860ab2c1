package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// desk is a board whose copy of the tasks is written by a test.
type desk struct {
	*testing.T
	*Board
	space    keys.Space
	self     placement.Node
	facts    map[string]*kind.Facts
	classes  placement.Classes
	held     map[string]bool
	pulled   map[string]bool
	refuses  func(id string) time.Time // until when the balancer refuses a task
	apart    map[string]time.Time
	now      time.Time
	revision broker.Revision
}

func newDesk(t *testing.T, peers ...Peer) *desk {
	d := &desk{
		T: t, space: newSpace(t), self: placement.Node{Name: "self", Types: []string{"t"}}, now: start,
		facts: map[string]*kind.Facts{}, held: map[string]bool{}, pulled: map[string]bool{},
	}
	d.facts[""] = &kind.Facts{Class: d.classes.Of(placement.Class{Type: "t"})}
	fleet := newTestFleet(peers...)
	d.Board = NewBoard(fleet, newTasks(d.space, d.facts, fleet), Rules{
		Held:       func(id string) bool { return d.held[id] },
		LeftBehind: func(string) bool { return false },
		Apart:      func(t *mirror.Task, _ time.Time) time.Time { return d.apart[t.ID] },
		Read: func(t *mirror.Task) (Reading, bool) {
			k := t.Kind.(*kind.Facts)
			return Reading{Kind: k, Blockers: k.Blockers(t.ID), Ours: !d.pulled[t.ID], Pulled: d.pulled[t.ID]}, true
		},
		Balancer: func(now time.Time) func(*Candidate) (bool, time.Time) {
			return func(c *Candidate) (bool, time.Time) {
				if d.refuses == nil {
					return true, time.Time{}
				}
				until := d.refuses(c.ID)
				return !until.After(now), until
			}
		},
	})
	return d
}

func newSpace(t *testing.T) keys.Space {
	space, err := keys.New("test")
	if err != nil {
		t.Fatal(err)
	}
	return space
}

// newTasks returns the copy of a node that counts the claims of the others in its
// fleet. The spec of a task is the name of its facts.
func newTasks(space keys.Space, facts map[string]*kind.Facts, fleet *Fleet) *mirror.Tasks {
	return mirror.NewTasks(space, mirror.Keep{
		Kind:  func(spec []byte) any { return facts[string(spec)] },
		Skips: func([]byte) bool { return true },
		Count: func(t *mirror.Task, by int) {
			if t.Owner != fleet.config.Name {
				fleet.Hold(t.Owner, t.Kind.(*kind.Facts).Class, by)
			}
		},
	})
}

// shows changes tasks in the copy: "a" has no owner, "a=n" is held by node n, "a>n" was
// released for node n, and "-a" is deleted.
func (d *desk) shows(tasks ...string) {
	d.Helper()
	b := broker.Batch{}
	event := func(key, value string, deleted bool) {
		d.revision++
		b.Events = append(b.Events, broker.Event{Deleted: deleted, KV: broker.KV{
			Key: key, Value: []byte(value), Created: d.revision, Modified: d.revision, Session: 1,
		}})
	}
	for _, task := range tasks {
		id, owner, owned := strings.Cut(strings.TrimPrefix(task, "-"), "=")
		id, releasedFor, released := strings.Cut(id, ">")
		switch t := d.tasks.Get(id); {
		case released:
			event(d.space.Handover(id), releasedFor, false)
			event(d.space.Owner(id), "", true)
		case task[0] == '-':
			event(d.space.Owner(id), "", true)
			event(d.space.Task(id), "", true)
		case owned:
			event(d.space.Owner(id), owner, false)
		case t != nil:
			event(d.space.Owner(id), "", true)
		default:
			kindOf := ""
			if d.facts[id] != nil {
				kindOf = id
			}
			event(d.space.Task(id), kindOf, false)
		}
	}
	d.applies(b)
}

// fails ends a task in the copy, so that those that wait for it are to be killed.
func (d *desk) fails(id string) {
	d.revision++
	d.applies(broker.Batch{Events: []broker.Event{
		{KV: broker.KV{Key: d.space.Failed(id), Created: d.revision, Modified: d.revision}},
		{Deleted: true, KV: broker.KV{Key: d.space.Task(id), Modified: d.revision}},
		{Deleted: true, KV: broker.KV{Key: d.space.Owner(id), Modified: d.revision}},
	}})
}

// applies applies a batch to the copy and to the board.
func (d *desk) applies(b broker.Batch) {
	b.Revision = d.revision
	changed := d.tasks.Apply(b)
	for _, id := range changed {
		d.Changed(id, d.now)
	}
	d.Shown(len(changed) > 0, d.now)
}

// pass makes a pass and returns the claimed tasks. A claim made in another node's stead
// is marked with a star.
func (d *desk) pass(at time.Duration) (ids []string) {
	d.Helper()
	d.now = after(at)
	for _, c := range d.Pass(d.self, d.now) {
		if ids = append(ids, c.ID); c.InsteadOf != "" {
			ids[len(ids)-1] += "*"
		}
	}
	if at := d.Wake(d.now); !at.IsZero() && !at.After(d.now) {
		d.Errorf("at %v the next pass is due at %v", d.now, at)
	}
	return ids
}

func (d *desk) wants(at time.Duration, want ...string) {
	d.Helper()
	if got := d.pass(at); !slices.Equal(got, want) {
		d.Errorf("at %v it claims %q, want %q", at, got, want)
	}
}

// meantFor returns IDs of tasks that the plan assigns to a node while no task is held.
func (d *desk) meantFor(node string, n int) (ids []string) {
	for i := 0; len(ids) < n; i++ {
		id := fmt.Sprint("task-", i)
		class := d.facts[""].Class
		plan := placement.New(d.fleet.View(d.self, map[*placement.Class]int{class: 1}, nil))
		if plan.Take(id, class) == node {
			ids = append(ids, id)
		}
	}
	return ids
}

// pinned pins tasks to a node.
func (d *desk) pinned(node string, ids ...string) {
	for _, id := range ids {
		d.facts[id] = &kind.Facts{Class: d.classes.Of(placement.Class{Type: "t", Node: node})}
	}
}

func TestBoard_ClaimsItsTasksByPriority(t *testing.T) {
	d := newDesk(t)
	d.facts["urgent"] = &kind.Facts{Class: d.facts[""].Class, Priority: 1}
	d.shows("b", "a", "urgent")
	d.wants(0, "urgent", "b", "a")
	if d.wants(0); d.InFlight() != 3 || d.Len() != 0 {
		t.Errorf("%d claims in flight, %d tasks wait", d.InFlight(), d.Len())
	}
}

func TestBoard_DoesNotClaimTasksThatItHoldsOrHasJustGivenBack(t *testing.T) {
	d := newDesk(t)
	d.held["mine"] = true
	d.Hold("held", after(0))
	d.shows("mine", "held")
	d.wants(heldFor - 1)
	d.wants(heldFor, "held")
}

func TestBoard_LeavesATaskToTheNodeThatItWasReleasedFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		when func(d *desk)
		at   time.Duration // when this node claims it, zero if only in the other's stead
	}{
		{"present", func(d *desk) { d.joins(peer("taker"), peer("theirs")) }, 0},
		{"joining, which this node learns later", func(d *desk) {
			d.wants(agreeAfter - 1)
			d.joins(peer("taker"), peer("theirs"))
		}, 0},
		{"gone", func(d *desk) { d.wants(RankStep - 1) }, RankStep},
		{"closed", func(d *desk) { d.joins(peer("taker", closed), peer("theirs")) }, time.Nanosecond},
	} {
		d := newDesk(t, peer("theirs"))
		d.fleet.Hold("theirs", d.facts[""].Class, 5) // so that the plan assigns it to this node
		d.shows("a", "a=theirs", "a>taker")
		if tt.when(d); tt.at == 0 {
			d.wants(agreeAfter - 1)
			d.wants(RankStep)
			d.wants(patience - 1)
		} else if got := d.pass(tt.at); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the other node is %s: it claims %q after %v", tt.name, got, tt.at)
		}
	}
}

// joins replaces the peers.
func (d *desk) joins(peers ...Peer) {
	if !d.fleet.Update(peers, published(nil), d.now).Same {
		d.FleetChanged()
	}
}

func TestBoard_WaitsForOtherTasksAndForATime(t *testing.T) {
	d := newDesk(t)
	class := d.facts[""].Class
	d.facts["waits"] = &kind.Facts{Class: class, Needs: []string{"first", "second"}}
	d.facts["later"] = &kind.Facts{Class: class, NotBefore: after(time.Minute)}
	d.shows("first", "first=other", "waits", "later")
	d.wants(0)
	d.shows("-first")
	d.wants(time.Second, "waits")
	if at := d.Wake(d.now); !at.Equal(after(time.Minute)) {
		t.Errorf("the next pass is due at %v", at)
	}
	d.wants(time.Minute, "later")
}

func TestBoard_AGrantedClaimInAnothersSteadAllowsMoreOfThem(t *testing.T) {
	d := newDesk(t, peer("a"))
	theirs := d.meantFor("a", 1)
	d.shows(theirs...)
	d.wants(0)
	d.wants(patience + RankStep - 1)
	d.wants(patience+RankStep, theirs[0]+"*")
	d.shows("another")
	d.pass(patience + RankStep)
	if d.Landed(theirs[0], Granted); d.standIns.window != 2 || d.standIns.inFlight != 0 {
		t.Errorf("%+v", d.standIns)
	}
}

func TestBoard_StandsInForNoNodeWhileItsCopyLags(t *testing.T) {
	d := newDesk(t, peer("a"))
	theirs := d.meantFor("a", 1)
	d.shows(theirs...)
	d.wants(0)
	d.Lag.Granted(d.revision+1, d.revision, d.now)
	d.wants(time.Minute)
	d.shows("x=other") // the copy has caught up
	d.wants(time.Minute, theirs[0]+"*")
}

func TestBoard_ARefusedTaskWaitsUntilTheCopyShowsTheReason(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer Answer
		shows  []string      // after that
		again  time.Duration // when it is claimed again, zero for never
	}{
		{"taken, the copy does not show it", Taken, nil, busyMax},
		{"taken, the copy shows the owner", Taken, []string{"t=other"}, 0},
		{"taken and released", Taken, []string{"t=other", "t"}, 1},
		{"gone", Taken, []string{"-t"}, 0},
		{"failed", Failed, nil, retryAfter},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t)
			d.shows("t")
			d.wants(0, "t")
			was := d.Landed("t", tt.answer)
			d.Refused(d.tasks.Get("t"), was, tt.answer, d.now)
			if len(tt.shows) > 0 {
				d.shows(tt.shows...)
			}
			if tt.again == 0 {
				d.wants(time.Hour)
				return
			}
			if tt.again > 1 { // or at once
				d.wants(tt.again - 1)
			}
			d.wants(tt.again, "t")
		})
	}
}

// The copy has already shown the reason, and no further change will come.
func TestBoard_RetriesSoonIfTheCopyShowedTheChangeBeforeTheRefusal(t *testing.T) {
	d := newDesk(t)
	d.shows("t")
	d.wants(0, "t")
	d.shows("t=other", "t")
	d.Refused(d.tasks.Get("t"), d.Landed("t", Taken), Taken, d.now)
	d.wants(retryAfter - 1)
	d.wants(retryAfter, "t")
}

func TestBoard_AFailedClaimFreesItsCapacity(t *testing.T) {
	for _, answer := range []Answer{Taken, Failed, Withdrawn} {
		d := newDesk(t)
		d.self.Capacity = 1
		d.shows("a", "b")
		d.wants(0, "a")
		d.Landed("a", answer)
		d.shows("a=other")
		if d.wants(time.Millisecond, "b"); d.fleet.HeldBy("self").Tasks != 1 {
			t.Errorf("%d: it holds %+v", answer, d.fleet.HeldBy("self"))
		}
	}
}

func TestBoard_AsksTheBalancerAgainAtTheTimeItNamedOrWhenTheLoadFalls(t *testing.T) {
	refused := func() *desk {
		d := newDesk(t)
		d.refuses = func(string) time.Time { return after(time.Minute) }
		d.shows("t")
		d.wants(0)
		return d
	}
	d := refused()
	d.wants(time.Minute - 1)
	d.wants(time.Minute, "t")

	d = refused()
	d.refuses = nil
	d.wants(time.Second)
	d.LoadFell()
	d.wants(time.Second, "t")
}

func TestBoard_PullsTheOldestTasksOneForEachWaitingCall(t *testing.T) {
	d := newDesk(t)
	d.pulled["a"], d.pulled["b"], d.pulled["c"] = true, true, true
	d.shows("b", "a", "c")
	d.wants(0)
	pull := func(calls int) (ids []string) {
		for _, c := range d.Pull("t", calls, d.now) {
			ids = append(ids, c.ID)
		}
		return ids
	}
	if got := pull(2); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("for two calls it claims %q", got)
	}
	if got := pull(2); got != nil {
		t.Errorf("for the same two calls it also claims %q", got)
	}
	d.Landed("a", Taken)
	if got := pull(2); !slices.Equal(got, []string{"c"}) {
		t.Errorf("after one of two was refused it claims %q", got)
	}
}

func TestBoard_ClaimsAReservedTaskWhenTheReservationEnds(t *testing.T) {
	d := newDesk(t, peer("a", returns))
	d.pinned("self", "t")
	d.shows("t", "t=a")
	d.shows("t")
	d.fleet.Update(nil, published(nil), d.now)
	d.FleetChanged()
	d.wants(time.Second)
	d.wants(time.Minute, "t")
}

func TestBoard_O02_LeavesASuspectAloneUntilItsTime(t *testing.T) {
	d := newDesk(t)
	d.apart = map[string]time.Time{"suspect": after(time.Minute)}
	d.shows("t", "suspect")
	d.wants(0, "t")
	d.wants(time.Second)
	d.apart["suspect"] = after(2 * time.Second) // it is less suspected by now
	d.Look([]string{"suspect", "t", "gone"})
	d.wants(time.Second)
	d.wants(2*time.Second, "suspect")
}

// Both are due at once: the one that is claimed is a reason not to claim the other.
func TestBoard_O02_ClaimsOneOfTwoSuspectsOfADeath(t *testing.T) {
	d := newDesk(t)
	rival := map[string]string{"a": "b", "b": "a"}
	d.rules.Apart = func(t *mirror.Task, _ time.Time) (until time.Time) {
		if d.IsFlight(rival[t.ID]) {
			return after(time.Minute)
		}
		return until
	}
	d.shows("a", "b", "c")
	d.wants(0, "a", "c")
	d.wants(30 * time.Second)
	d.wants(time.Minute, "b")
}

func TestBoard_ReplacesItsMapsOnceVeryManyTasksAreGone(t *testing.T) {
	d := newDesk(t)
	var ids []string
	for i := range 2 * shrinkFrom {
		ids = append(ids, fmt.Sprint("t", i))
	}
	d.shows(ids...)
	if got := d.pass(0); len(got) != len(ids) {
		t.Fatalf("it claims %d of %d", len(got), len(ids))
	}
	for _, id := range ids {
		d.Landed(id, Granted)
	}
	if d.candidates.most != 0 || d.flightsMost != 0 {
		t.Errorf("it remembers that there were %d candidates and %d flights", d.candidates.most, d.flightsMost)
	}
}

// Two nodes disagree about two tasks. Once one of them is seen to be claimed, the other
// is planned again, with loads that are right.
func TestBoard_AClaimByAnUnplannedNodeReleasesATargetOfThatNode(t *testing.T) {
	for name, c := range map[string]struct {
		overdue bool
		want    int // tasks still assigned to the node that has claimed one
	}{
		"the target claims its tasks": {want: 1},
		"the target is overdue":       {overdue: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, peer("a"), peer("b"))
			byTarget := map[string][]string{}
			for i := range 6 {
				d.shows(fmt.Sprint("task-", i))
			}
			d.pass(0)
			for id, candidate := range d.candidates.byID {
				byTarget[candidate.target] = append(byTarget[candidate.target], id)
			}
			if c.overdue {
				d.fleet.StoodInFor("b")
			}
			d.shows(byTarget["b"][0] + "=a")
			d.pass(time.Millisecond)
			if got := d.targets.planned[d.facts[""].Class]["a"]; got != c.want {
				t.Errorf("%d are assigned to the node", got)
			}
		})
	}
}

// Tasks that have a target keep it, because the other nodes see the change at other
// times.
func TestBoard_PlansNewTasksByNameOnceTheirTypeIsShortLived(t *testing.T) {
	d := newDesk(t, peer("a"))
	d.shows("task-0", "task-1", "task-2", "task-3")
	d.pass(0)
	before := map[string]string{}
	for id, c := range d.candidates.byID {
		before[id] = c.target
	}
	d.fleet.Update([]Peer{peer("a", func(p *Peer) { p.ShortLived = []string{"t"} })}, published(nil), d.now)
	d.LifetimesChanged(d.now)
	d.shows("task-4", "task-5", "task-6", "task-7")
	d.pass(time.Millisecond)
	for id, c := range d.candidates.byID {
		if was, old := before[id]; old && c.target != was || c.byName == old {
			t.Errorf("%s has target %s, by name %v; before it was %q", id, c.target, c.byName, was)
		}
	}
	for id := range d.flights {
		d.Landed(id, Granted)
	}
	d.pass(agreeAfter + time.Millisecond)
	for id, c := range d.candidates.byID {
		if !c.byName {
			t.Errorf("when nothing has changed for a while, %s has target %s by loads", id, c.target)
		}
	}
}

func TestBoard_ATaskThatWaitsForManyIsCheckedAFewTimes(t *testing.T) {
	const many = 3000
	needs := make([]string, many)
	for i := range needs {
		needs[i] = fmt.Sprint("n", i)
	}
	for name, order := range map[string]func(i int) int{
		"first to last": func(i int) int { return i },
		"last to first": func(i int) int { return many - 1 - i },
		"in a jumble":   func(i int) int { return i * 7 % many },
	} {
		d := newDesk(t)
		d.facts["join"] = &kind.Facts{Class: d.facts[""].Class, Needs: needs}
		for _, need := range needs {
			d.shows(need, need+"=other")
		}
		d.shows("join")
		d.wants(0)
		checks := 0
		for i := range many {
			d.shows("-" + needs[order(i)])
			if len(d.candidates.soon) > 0 {
				checks++
			}
			if i < many-1 {
				d.wants(0)
			}
		}
		if d.wants(0, "join"); checks > 100 { // 8 or 9 are to be expected
			t.Errorf("%s: it is checked %d times", name, checks)
		}
	}
}

func TestBoard_AnyFailureThatSkipsATaskIsSeenWhicheverItWaitsFor(t *testing.T) {
	for i := range 4 {
		d := newDesk(t)
		needs := []string{"a", "b", "c", "d"}
		d.facts["join"] = &kind.Facts{Class: d.facts[""].Class, Needs: needs}
		d.pulled["join"] = true // or the board claims it only if its target is this node
		d.shows("a", "a=other", "b", "b=other", "c", "c=other", "d", "d=other", "join")
		d.wants(0)
		d.fails(needs[i])
		d.wants(0, "join")
	}
}
