package schedule

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

const mine broker.SessionID = 7

// donor is a node whose claims are set by a test.
type donor struct {
	*desk
	*Giving
	state  Self
	claims map[string]Held
	// asked lists the triggers for which the balancer was called.
	asked []events.Trigger
	given int
	// chooses is the balancer, nil for the planned moves.
	chooses func(running []Held) []string
	// still is until when nothing is moved.
	still time.Time
}

func newDonor(t *testing.T, rules GivingRules, peers ...Peer) *donor {
	d := &donor{desk: newDesk(t, peers...), claims: map[string]Held{}}
	d.state = Self{Node: d.self}
	rules.Session, rules.MovesMax = mine, max(rules.MovesMax, 1)
	rules.Self = func() Self { return d.state }
	rules.StillUntil = func() time.Time { return d.still }
	rules.Held = func() iter.Seq[Held] { return maps.Values(d.claims) }
	rules.Get = func(id string) (Held, bool) {
		h, ok := d.claims[id]
		return h, ok
	}
	rules.Balance = func(t events.Trigger, running []Held, planned func() []string, _ time.Time) []string {
		if d.asked = append(d.asked, t); d.chooses != nil {
			return d.chooses(running)
		}
		return planned()
	}
	rules.Leaves = func(id, _ string) {
		h := d.claims[id]
		h.Leaves = true
		d.claims[id] = h
		d.fleet().Hold("self", h.Class, -1)
	}
	rules.Balanced = func(_ events.Trigger, n int) { d.given += n }
	d.Giving = NewGiving(d.fleet(), d.Board, rules)
	return d
}

func (d *donor) fleet() *Fleet { return d.Board.fleet }

// holds makes the node hold n more tasks, running since a time after the start.
func (d *donor) holds(n int, since time.Duration, edits ...func(*Held)) {
	for range n {
		d.revision++
		h := Held{ID: fmt.Sprintf("h%03d", len(d.claims)), Token: d.revision, Class: d.facts[""].Class, Started: after(since)}
		for _, edit := range edits {
			edit(&h)
		}
		if d.claims[h.ID] = h; !h.Leaves && !h.Pulled {
			d.fleet().Hold("self", h.Class, 1)
		}
	}
}

// gone shows in the copy that a task has another owner, or none.
func (d *donor) gone(id, owner string) {
	delete(d.claims, id)
	d.Giving.Shown(id, &mirror.Task{ID: id, Owner: owner, Token: 1, Session: 8}, d.now)
}

// departures returns the claims to be told to stop at a time.
func (d *donor) departures(at time.Duration) (ids []string) {
	for _, dep := range d.Departures(after(at)) {
		ids = append(ids, dep.ID)
	}
	return ids
}

// moves balances on command, and checks the claims that are given away.
func (d *donor) moves(want ...string) {
	d.Helper()
	d.Balance(events.TriggerCommand, after(time.Minute))
	if got := d.departures(time.Minute); !slices.Equal(got, want) {
		d.Errorf("it gives away %q, want %q", got, want)
	}
}

// otherHas checks how many tasks count as held by the other node.
func (d *donor) otherHas(want int) {
	d.Helper()
	if got := d.fleet().HeldBy("other").Tasks; got != want {
		d.Errorf("the other node has %d tasks, want %d", got, want)
	}
}

func TestGiving_TheTriggerDecidesWhichClaimsMove(t *testing.T) {
	triggers := []events.Trigger{events.TriggerMembership, events.TriggerCommand, events.TriggerDrift, events.TriggerSettling, events.TriggerReview}
	const old, now = 0, time.Minute
	for _, tt := range []struct {
		name string
		set  func(d *donor)
		want []int // for each trigger
	}{
		{"ten more than the other", func(d *donor) { d.holds(10, old) }, []int{5, 5, 5, 5, 5}},
		{"frozen", func(d *donor) {
			d.holds(10, old)
			d.state.Frozen, d.state.Closed = true, "frozen"
		}, []int{0, 5, 0, 0, 0}},
		{"idle", func(d *donor) {
			d.holds(10, old)
			d.state.Idle = true
		}, []int{0, 0, 0, 0, 0}},
		{"just started", func(d *donor) { d.holds(10, now-confirmEvery/2) }, []int{5, 5, 0, 0, 0}},
		{"running for a moment", func(d *donor) { d.holds(10, now-confirmEvery) }, []int{5, 5, 0, 5, 0}},
		{"running for a while", func(d *donor) { d.holds(10, now-Settle) }, []int{5, 5, 5, 5, 5}},
		{"parked", func(d *donor) {
			d.holds(10, old, func(h *Held) { h.Started, h.Parked = time.Time{}, true })
		}, []int{5, 5, 5, 5, 5}},
		{"the other node is closed", func(d *donor) {
			d.fleet().Update([]Peer{peer("other", closed)}, published(nil), start)
			d.holds(10, old)
		}, []int{0, 0, 0, 0, 0}},
		{"a little more than the other", func(d *donor) {
			d.holds(50, old)
			d.fleet().Hold("other", d.facts[""].Class, 47)
		}, []int{0, 1, 0, 0, 0}},
		{"a little more, and the other has just joined", func(d *donor) {
			d.holds(50, old)
			d.fleet().Hold("other", d.facts[""].Class, 47)
			d.Giving.FleetChanged(true, after(now))
		}, []int{1, 1, 1, 1, 1}},
		{"already being given away", func(d *donor) { d.holds(10, old, func(h *Held) { h.Leaves = true }) }, []int{0, 0, 0, 0, 0}},
		{"being stored", func(d *donor) { d.holds(10, old, func(h *Held) { h.Saving = true }) }, []int{0, 0, 0, 0, 0}},
		{"dequeued", func(d *donor) { d.holds(10, old, func(h *Held) { h.Pulled = true }) }, []int{0, 0, 0, 0, 0}},
		{"end soon", func(d *donor) {
			d.holds(10, now-2*Settle)
			for range endsSoonAfter {
				d.fleet().Ended("t", Settle*3/4, start)
			}
		}, []int{0, 5, 0, 0, 0}},
	} {
		for i, trigger := range triggers {
			d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
			tt.set(d)
			if d.Balance(trigger, after(now)); d.given != tt.want[i] || len(d.Departures(after(now))) != tt.want[i] {
				t.Errorf("%s, trigger %d: %d are given away, want %d", tt.name, trigger, d.given, tt.want[i])
			}
		}
	}
}

func TestGiving_TheYoungestClaimsMoveFirstAndEachOnce(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	for i := range 4 {
		d.holds(1, time.Duration(i)*time.Second)
	}
	d.Balance(events.TriggerCommand, after(time.Minute))
	d.moves("h003", "h002")
	d.otherHas(2)
}

func TestGiving_BalancesAgainOnceTheClaimsInFlightHaveLanded(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	d.pinned("self", "flies")
	d.shows("flies")
	d.wants(0, "flies")
	d.Giving.FleetChanged(false, d.now)
	d.Giving.Pass(d.now)
	if d.Giving.Pass(d.now); !slices.Equal(d.asked, []events.Trigger{events.TriggerMembership}) {
		t.Errorf("it balances for %v", d.asked)
	}
	d.Board.Landed("flies", Granted)
	d.Giving.Landed()
	if d.Giving.Pass(d.now); !slices.Equal(d.asked, []events.Trigger{events.TriggerMembership, events.TriggerMembership}) {
		t.Errorf("once the claim has landed it balances for %v", d.asked)
	}
}

func TestGiving_SettlesAfterTwoUnevenChecks(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	d.Giving.FleetChanged(true, start)
	d.Giving.Pass(start)
	d.holds(10, 0)
	checks := 0
	for ; d.given == 0 && checks < 5; checks++ {
		d.Giving.Pass(d.Giving.Wake(false))
	}
	if checks != 2 || d.given != 5 || d.asked[len(d.asked)-1] != events.TriggerSettling {
		t.Errorf("after %d checks %d are given away for %v", checks, d.given, d.asked)
	}
}

func TestGiving_StopsCheckingOnceTheNodesAreEven(t *testing.T) {
	d := newDonor(t, GivingRules{Planned: true}, peer("other"))
	d.Giving.FleetChanged(true, start)
	passes := 0
	for at := start; !at.IsZero(); at = d.Giving.Wake(false) {
		d.Giving.Pass(at)
		passes++
	}
	if want := 1 + confirmsMax; passes != want || len(d.asked) != 2 { // for the join, and for tasks that could not move at once
		t.Errorf("%d passes, want %d; it balances for %v", passes, want, d.asked)
	}
}

func TestGiving_MovesInRounds(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 3, Planned: true}, peer("other"))
	d.holds(10, 0)
	d.Giving.FleetChanged(false, after(time.Minute))
	d.Giving.Pass(after(time.Minute))
	first := d.departures(time.Minute)
	for i, id := range first {
		if d.Giving.Pass(after(time.Minute)); d.given != 3 {
			t.Fatalf("%d are given away while %d of the first round are moving", d.given, len(first)-i)
		}
		d.fleet().Hold("other", d.facts[""].Class, 1)
		d.gone(id, "other")
	}
	if d.Giving.Pass(after(time.Minute)); d.given != 5 {
		t.Errorf("%d are given away in two rounds", d.given)
	}
}

func TestGiving_StayKeepsTheClaimsThatWereNotToldToStop(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	d.holds(200, 0)
	d.Balance(events.TriggerMembership, after(time.Minute))
	told := d.departures(time.Minute)
	stays := d.Stay()
	if len(told) != leavingWindow || len(told)+len(stays) != 100 {
		t.Fatalf("%d were told to stop and %d stay", len(told), len(stays))
	}
	d.otherHas(leavingWindow)
	d.gone(told[0], "other")
	if more := d.departures(2 * time.Minute); len(more) > 0 {
		t.Errorf("%q are told to stop nevertheless", more)
	}
}

func TestGiving_StopsHandlersAsFastAsOtherNodesTakeTheTasks(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 1000, Planned: true}, peer("other"))
	d.holds(300, 0)
	d.Balance(events.TriggerMembership, after(0))
	stop := func(at time.Duration, want int) []string {
		t.Helper()
		told := d.departures(at)
		for _, id := range told {
			d.Returned(id, after(at))
		}
		if len(told) != want {
			t.Errorf("at %v %d are told to stop, want %d", at, len(told), want)
		}
		return told
	}
	told := stop(0, leavingWindow)
	stop(leavingStep, 0)
	if at := d.Giving.Wake(false); !at.Equal(after(2 * leavingStep)) {
		t.Errorf("it wakes at %v", at)
	}
	for _, id := range told[:3] {
		d.gone(id, "other")
	}
	stop(2*leavingStep, 3)
	stop(leavingMax, leavingWindow-3) // no node has taken the first ones for that long
}

func TestGiving_OffersTasksThatNoOtherNodeTook(t *testing.T) {
	const first = offerMin
	gives := func(d *donor, at time.Duration, want int) {
		d.Helper()
		d.now = after(at)
		before := d.given
		if d.Balance(events.TriggerCommand, d.now); d.given-before != want {
			d.Errorf("at %v it gives away %d, want %d", at, d.given-before, want)
		}
	}
	for _, tt := range []struct {
		name string
		// became sets the fate of the first offered task.
		became func(d *donor, id string)
		// next is when the next may move, more how many do then.
		next time.Duration
		more int
	}{
		{"the other took it", func(d *donor, id string) { d.gone(id, "other") }, first, 4},
		{"it came back", func(d *donor, id string) {
			d.claimedInsteadOf("other", id)
			d.Giving.Shown(id, &mirror.Task{ID: id, Owner: "self", Token: 99, Session: mine}, d.now)
		}, first + 2*offerMin, 1},
		{"a third node has it", func(d *donor, id string) { d.gone(id, "third") }, first + 2*offerMin, 1},
		{"it is gone", func(d *donor, id string) { d.Giving.Shown(id, nil, d.now) }, first + offerMin, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
			d.holds(10, 0)
			for id := range d.claims {
				d.claimedInsteadOf("other", id)
			}
			gives(d, first-1, 0)
			gives(d, first, 1)
			gives(d, first, 0) // one task stands for all of its type
			id := d.departures(first)[0]
			delete(d.claims, id)
			if tt.became(d, id); tt.next > first {
				gives(d, tt.next-1, 0)
			}
			gives(d, tt.next, tt.more)
		})
	}
}

// claimedInsteadOf claims a task in another node's stead, or in this node's own turn if
// node is empty.
func (d *donor) claimedInsteadOf(node, id string) {
	d.Claimed(&Candidate{ID: id, InsteadOf: node, Reading: Reading{Kind: &kind.Facts{Class: d.facts[""].Class}}}, false, d.now)
}

func TestGiving_AClaimInTheNodesOwnTurnIsNotHeldBack(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"), peer("third"))
	d.holds(1, 0)
	d.claimedInsteadOf("other", "h000")
	d.claimedInsteadOf("", "h000")
	d.chooses = func(running []Held) []string { return []string{running[0].ID} }
	if d.Balance(events.TriggerDrift, after(time.Minute/4)); d.given != 1 {
		t.Errorf("%d are given away", d.given)
	}
}

func TestGiving_GiveMovesATaskToItsPlannedNode(t *testing.T) {
	d := newDonor(t, GivingRules{Planned: true}, peer("busy"), peer("free"))
	d.fleet().Hold("busy", d.facts[""].Class, 3)
	d.holds(1, 0)
	h := d.claims["h000"]
	d.Give(&h, start)
	if got := d.Departures(start); len(got) != 1 || got[0].To != "free" || got[0].Draining || got[0].Token != h.Token {
		t.Errorf("%+v", got)
	}
}

func TestGiving_DrainsAtItsPaceOnceTheOthersKnow(t *testing.T) {
	d := newDonor(t, GivingRules{Planned: true}, peer("other"))
	d.holds(5, 0)
	d.Drain(20, start)
	if d.Drained(false, start); len(d.Departures(start)) > 0 || !d.Giving.Wake(false).IsZero() {
		t.Error("it gives away before the others know")
	}
	for i, want := range []int{2, 2, 1, 0} {
		at := time.Duration(i) * DrainTick
		d.Drained(true, after(at))
		d.Drained(true, after(at+DrainTick/2))
		got := d.Departures(after(at + DrainTick/2))
		for _, dep := range got {
			if delete(d.claims, dep.ID); dep.To != "" || !dep.Draining {
				t.Errorf("%+v", dep)
			}
		}
		if len(got) != want {
			t.Errorf("after %v %d are given away, want %d", at, len(got), want)
		}
	}
	if at := d.Giving.Wake(true); !at.IsZero() {
		t.Errorf("with nothing left it wakes at %v", at)
	}
	d.Drain(20, after(time.Minute))
	d.EndDrain()
	if at := d.Giving.Wake(true); !at.IsZero() {
		t.Errorf("with the drain over it wakes at %v", at)
	}
}

func TestGiving_O02_MovesNothingWhileSuspectsAreTriedAndThenWhatWasLostLeast(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	d.holds(2, 0)
	d.holds(2, time.Second, func(h *Held) { h.Losses = 1 })
	d.still = after(time.Minute)
	d.Giving.FleetChanged(true, start)
	d.Giving.Pass(after(30 * time.Second))
	if at := d.Giving.Wake(false); len(d.asked) > 0 || !at.Equal(d.still) {
		t.Errorf("it balances for %v, and wakes at %v", d.asked, at)
	}
	d.Giving.Pass(d.still)
	if got := d.departures(time.Minute); !slices.Equal(got, []string{"h000", "h001"}) && !slices.Equal(got, []string{"h001", "h000"}) {
		t.Errorf("then it gives away %q", got)
	}
}

func TestGiving_ReviewsAndSettlesWithABalancerThatIgnoresThePlan(t *testing.T) {
	more := true
	d := newDonor(t, GivingRules{
		ReviewEvery: func() time.Duration { return time.Minute }, HasMore: func(time.Time) bool { return more },
	}, peer("other"))
	d.chooses = func(running []Held) []string { return []string{"none", "h001"} }
	d.holds(2, 0)
	d.TasksChanged(start)
	d.Giving.Pass(after(Settle)) // for a review, and because tasks changed
	if want := []events.Trigger{events.TriggerReview, events.TriggerDrift}; !slices.Equal(d.asked, want) || d.given != 1 {
		t.Errorf("it balances for %v, and gives away %d", d.asked, d.given)
	}
	d.departures(Settle)
	if at := d.Giving.Wake(false); !at.Equal(after(2 * Settle)) {
		t.Errorf("while it has more than its share it wakes at %v", at)
	}
	more = false
	d.Giving.Pass(after(2 * Settle))
	if at := d.Giving.Wake(false); !at.Equal(after(Settle + time.Minute)) {
		t.Errorf("with its share it wakes at %v", at)
	}
}

func TestGiving_MovesTasksWithoutAPreferenceForThisNodeFirst(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	prefers := d.classes.Of(placement.Class{Type: "t", Prefer: map[string]string{"disk": "fast"}})
	d.state.Labels = map[string]string{"disk": "fast"}
	d.holds(2, 0)
	d.holds(2, time.Second, func(h *Held) { h.Class = prefers })
	d.moves("h001", "h000")
}

func TestGiving_DoesNotReduceTheSpreadOfAGroup(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	group := d.classes.Of(placement.Class{Type: "t", Group: "g"})
	d.fleet().Hold("other", group, 2)
	d.holds(2, time.Second, func(h *Held) { h.Class = group })
	d.holds(4, 0)
	d.moves("h005", "h004")
}

// Each of two nodes holds both tasks of a group.
func TestGiving_O08_SpreadsAGroupAfterAJoin(t *testing.T) {
	for _, joined := range []bool{true, false} {
		d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
		g, h := d.classes.Of(placement.Class{Type: "t", Group: "g"}), d.classes.Of(placement.Class{Type: "t", Group: "h"})
		d.fleet().Hold("other", h, 2)
		d.holds(2, 0, func(held *Held) { held.Class = g })
		if d.FleetChanged(joined, after(time.Minute)); joined {
			d.Pass(after(time.Minute))
			if d.Pass(after(time.Minute + 2*confirmEvery)); d.given != 1 {
				t.Errorf("%d leave, want one of the group", d.given)
			}
			continue
		}
		d.Pass(after(time.Minute))
		if d.Pass(after(2 * time.Minute)); d.given != 0 {
			t.Errorf("%d leave, although no node has joined", d.given)
		}
	}
}

// On command a task of another node comes in exchange for one of this node, which moves later: two
// loads of three and one are even enough otherwise.
func TestGiving_O08_ACommandIsFollowedByTheOtherHalfOfAnExchange(t *testing.T) {
	for _, told := range []bool{true, false} {
		d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
		g, h := d.classes.Of(placement.Class{Type: "t", Group: "g"}), d.classes.Of(placement.Class{Type: "t", Group: "h"})
		d.fleet().Hold("other", g, 2)
		d.holds(2, 0, func(held *Held) { held.Class = h })
		if told {
			d.Balance(events.TriggerCommand, after(time.Minute))
		}
		if d.given != 0 {
			t.Errorf("%d leave at once, want those of the other node to", d.given)
		}
		d.fleet().Hold("other", g, -1)
		d.holds(1, time.Minute, func(held *Held) { held.Class = g })
		d.TasksChanged(after(time.Minute))
		d.Pass(after(time.Minute + 2*Settle))
		if want := map[bool]int{true: 1}[told]; d.given != want {
			t.Errorf("told %v: %d leave, want %d", told, d.given, want)
		}
	}
}

func TestGiving_RecountIncludesTheTasksThatAreMoving(t *testing.T) {
	d := newDonor(t, GivingRules{MovesMax: 100, Planned: true}, peer("other"))
	d.holds(4, 0)
	d.Balance(events.TriggerCommand, after(time.Minute))
	d.fleet().Recount()
	d.Giving.Recount()
	d.otherHas(2)
}
