package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/placement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const ttl = 15 * time.Second

// after returns a time of a test.
func after(d time.Duration) time.Time { return start.Add(d) }

// peer returns a peer that takes tasks of type t, changed by some edits.
func peer(name string, edits ...func(*Peer)) Peer {
	p := Peer{Node: placement.Node{Name: name, Types: []string{"t"}}, Incarnation: "1"}
	for _, edit := range edits {
		edit(&p)
	}
	return p
}

func closed(p *Peer)     { p.Closed = "frozen" }
func draining(p *Peer)   { p.Closed, p.Draining = "draining", true }
func overloaded(p *Peer) { p.Closed, p.Overloaded = "overloaded", true }
func stopping(p *Peer)   { p.Closed, p.Returning = "stopping", true }
func again(p *Peer)      { p.Incarnation = "2" }
func returns(p *Peer)    { p.ReturnWithin = time.Minute }

func newTestFleet(peers ...Peer) *Fleet {
	f := NewFleet(Config{Name: "self", TTL: ttl, FailoverRate: 10})
	f.Update(peers, published(nil), start)
	return f
}

// published returns the last registrations of the nodes that are gone.
func published(last map[string]Peer) func(string) (Peer, bool) {
	return func(name string) (Peer, bool) {
		p, ok := last[name]
		return p, ok
	}
}

func TestFleet_UpdateReportsTheChange(t *testing.T) {
	list := func(peers ...Peer) []Peer { return peers }
	for _, tt := range []struct {
		name        string
		before, now []Peer
		want        Change
	}{
		{"nothing", list(peer("a")), list(peer("a")), Change{Same: true}},
		{"nobody", nil, nil, Change{Same: true}},
		{"one joins", list(peer("a")), list(peer("a"), peer("b")), Change{Joined: true}},
		{"a closed one joins", list(peer("a")), list(peer("a"), peer("b", closed)), Change{Same: true}},
		{"one leaves", list(peer("a"), peer("b")), list(peer("a")), Change{}},
		{"a closed one leaves", list(peer("a"), peer("b", closed)), list(peer("a")), Change{Same: true}},
		{"one replaces another", list(peer("a")), list(peer("b")), Change{Joined: true}},
		{"one is back with another session", list(peer("a")), list(peer("a", again)), Change{Joined: true}},
		{"one is closed", list(peer("a")), list(peer("a", closed)), Change{}},
		{"one is closed, and another stays", list(peer("a"), peer("b")), list(peer("a", closed), peer("b")), Change{}},
		{"one is drained", list(peer("a")), list(peer("a", draining)), Change{}},
		{"one takes tasks again", list(peer("a", closed)), list(peer("a")), Change{Joined: true}},
		{"one stays closed", list(peer("a", closed)), list(peer("a", draining)), Change{Same: true}},
		{"one is overloaded", list(peer("a")), list(peer("a", overloaded)), Change{}},
		{"one is no longer overloaded", list(peer("a", overloaded)), list(peer("a")), Change{}},
		{"an overloaded one is back with another session", list(peer("a", overloaded)), list(peer("a", again)), Change{Joined: true}},
		{"one has other labels", list(peer("a")), list(peer("a", returns)), Change{Same: true}},
		{"two of three go", list(peer("a"), peer("b"), peer("c")), list(peer("a")), Change{}},
		{"three of four go", list(peer("a"), peer("b"), peer("c"), peer("d")), list(peer("a")), Change{Braked: 3}},
		{"two go, and this node is alone", list(peer("a"), peer("b")), nil, Change{Braked: 2}},
		{"the only other goes", list(peer("a")), nil, Change{}},
		{"two that were closed go", list(peer("a", closed), peer("b", closed)), nil, Change{Same: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := newTestFleet(tt.before...).Update(tt.now, published(nil), after(time.Second))
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestFleet_KeepsTheTasksOfANodeThatWillReturn(t *testing.T) {
	const kept = 60 * time.Second
	for _, tt := range []struct {
		name   string
		before Peer
		last   map[string]Peer
		want   time.Duration // how long they are kept; zero for not at all
	}{
		{"it returns", peer("a", returns), nil, kept},
		{"it does not", peer("a"), nil, 0},
		{"it is being stopped", peer("a", returns, stopping), nil, kept},
		{"it drains", peer("a", returns, draining), nil, 0},
		{"it returns by its last registration", peer("a"), map[string]Peer{"a": peer("a", returns, stopping)}, kept},
		{"it drains by its last registration", peer("a", returns), map[string]Peer{"a": peer("a", returns, draining)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTestFleet(tt.before, peer("b"))
			gone := after(time.Second)
			f.Update([]Peer{peer("b")}, published(tt.last), gone)
			until := f.ReservedUntil("a", gone, gone)
			if want := gone.Add(tt.want); tt.want > 0 && !until.Equal(want) || tt.want == 0 && until.After(gone) {
				t.Errorf("kept until %v, want %v", until, want)
			}
			back := f.Update([]Peer{peer("a", again), peer("b")}, published(nil), gone.Add(kept/2)).Back
			if slices.Contains(back, "a") != (tt.want > 0) {
				t.Errorf("back are %q", back)
			}
		})
	}
}

func TestFleet_KeepsTasksForALimitedTime(t *testing.T) {
	f := newTestFleet(peer("a", returns))
	f.Update(nil, published(nil), start)
	f.ReservedUntil("a", start, after(time.Minute))
	if until := f.ReservedUntil("a", start, after(time.Minute)); !until.IsZero() {
		t.Errorf("kept until %v", until)
	}
}

func TestFleet_M17_KeepsTasksForWhoHasPromisedToBeBack(t *testing.T) {
	stored := func(name string, until time.Duration) Away { return Away{Node: peer(name).Node, Until: after(until)} }
	f := newTestFleet(peer("seen", returns), peer("b"))
	f.Update([]Peer{peer("b")}, published(nil), start)
	keeps := func(at time.Duration, want map[string]time.Duration) {
		t.Helper()
		for _, name := range []string{"seen", "told"} {
			got := f.ReservedUntil(name, after(at), after(at))
			if until, kept := want[name]; kept && !got.Equal(after(until)) || !kept && got.After(after(at)) {
				t.Errorf("after %v it keeps the tasks of %s until %v, want %v", at, name, got, want)
			}
		}
	}
	keeps(1, map[string]time.Duration{"seen": time.Minute})
	if freed := f.Promised([]Away{stored("told", 30*time.Second)}); freed != nil {
		t.Errorf("freed %q: the promise of a node that was seen to go may come later", freed)
	}
	f.Promised([]Away{stored("seen", time.Hour), stored("told", 30*time.Second)})
	keeps(2, map[string]time.Duration{"seen": time.Minute, "told": 30 * time.Second})
	if !f.KeepsFor("told") || f.KeepsFor("b") {
		t.Error("want the tasks of the absent node to be kept, and no others")
	}
	if freed := f.Promised([]Away{stored("seen", time.Hour)}); !slices.Equal(freed, []string{"told"}) {
		t.Errorf("freed %q, the promise of told is gone", freed)
	}
	keeps(3, map[string]time.Duration{"seen": time.Minute})
	f.Promised([]Away{stored("told", 30*time.Second), stored("seen", time.Hour)})
	keeps(30*time.Second, map[string]time.Duration{"seen": time.Minute})
	if !f.Forsake("seen") || f.Forsake("seen") {
		t.Error("want what is kept for a node to be dropped once")
	}
	keeps(31*time.Second, nil)
}

// What is kept for a node is its part of the load, and it gets nothing more.
func TestFleet_M17_TheLoadOfAnAbsentNodeIsWhatIsKeptForIt(t *testing.T) {
	f := newTestFleet(peer("away", returns), peer("idle", returns), peer("there"))
	f.Update([]Peer{peer("there")}, published(nil), start)
	class := &placement.Class{Type: "t", Weight: 1}
	f.Hold("away", class, 2)
	v := f.View(placement.Node{Name: "self", Types: []string{"t"}}, nil, nil)
	if len(v.Away) != 1 || v.Away[0].Name != "away" || len(v.Nodes) != 2 {
		t.Errorf("away are %v beside %v", v.Away, v.Nodes)
	}
}

func TestFleet_ReservesTasksForRegisteredNodesThatWillReturn(t *testing.T) {
	f := newTestFleet(peer("ending", returns), peer("leaves", returns, draining), peer("plain"), peer("stops", returns, stopping))
	for name, want := range map[string]time.Duration{
		"": 0, "self": 0, "nobody": 0, "plain": 0, "leaves": 0,
		"ending": RankStep, // its claims end before its registration is seen to be gone
		"stops":  time.Minute,
	} {
		if got := f.ReservedUntil(name, start, start); want == 0 && !got.IsZero() || want > 0 && !got.Equal(start.Add(want)) {
			t.Errorf("%q: until %v, want %v after the start", name, got, want)
		}
	}
}

func TestFleet_TheBrakeReleasesTasksOneByOneUntilNoneWaits(t *testing.T) {
	f := newTestFleet(peer("a"), peer("b"), peer("c"))
	if got := f.Update(nil, published(nil), start); got.Braked != 3 {
		t.Fatalf("%+v", got)
	}
	slots := make([]time.Time, 3)
	for i := range slots {
		again, ok := f.Slot("a", &slots[i], start)
		if want := start.Add(time.Duration(i) * time.Second / 10); ok != (i == 0) || !again.Equal(want) {
			t.Errorf("task %d: now %v, or at %v, want %v", i, ok, again, want)
		}
	}
	if again, ok := f.Slot("a", &slots[2], after(100*time.Millisecond)); ok || !again.Equal(slots[2]) {
		t.Errorf("a task with a slot got another: %v, %v", again, ok)
	}
	if _, ok := f.Slot("d", new(time.Time), start); !ok {
		t.Error("a task of a node that did not vanish waits")
	}
	if !f.Braked("a", start) || f.Braked("d", start) {
		t.Error("want the tasks of vanished nodes to wait, and no others")
	}
	f.Update([]Peer{peer("a")}, published(nil), after(time.Second))
	if _, ok := f.Slot("a", new(time.Time), after(time.Second)); !ok || f.Braked("a", after(time.Second)) {
		t.Error("a task of a node that is back waits")
	}
	if rested := after(brakeRest + time.Second); f.Braked("b", rested) {
		t.Error("the brake is on although nothing has waited for it for a while")
	} else if _, ok := f.Slot("b", new(time.Time), rested); !ok {
		t.Error("a task waits for a brake that is off")
	}
}

func TestFleet_NodesThatVanishFarApartDoNotApplyTheBrake(t *testing.T) {
	f := newTestFleet(peer("a"), peer("b"), peer("c"), peer("d"))
	for i, left := range [][]Peer{{peer("a"), peer("b"), peer("c")}, {peer("a"), peer("b")}, {peer("a")}, nil} {
		if got := f.Update(left, published(nil), after(time.Duration(i)*(2*ttl+time.Second))); got.Braked > 0 {
			t.Errorf("the brake is applied with %d nodes left: %+v", len(left), got)
		}
	}
}

func TestFleet_IsCompleteOnceTheCopyShowsThisNodesFirstPublication(t *testing.T) {
	f := newTestFleet()
	if f.Complete(100, after(time.Hour)) {
		t.Error("complete before the nodes were listed")
	}
	if !f.Listed(start) || f.Listed(after(time.Hour)) {
		t.Error("the nodes are listed first exactly once")
	}
	f.Published(7)
	f.Published(9) // only the first counts
	for revision, want := range map[broker.Revision]bool{6: false, 7: true, 8: true} {
		if got := f.Complete(revision, start); got != want {
			t.Errorf("at revision %d: %v", revision, got)
		}
	}
	if f.Complete(6, after(completeWithin-1)) || !f.Complete(6, after(completeWithin)) {
		t.Errorf("it does not wait for %v", completeWithin)
	}
}
