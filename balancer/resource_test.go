package balancer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// dial is a reporter whose reading is set by hand.
type dial struct {
	used, total uint64
	err         error
	asked       int
}

func (d *dial) Used() (used, total uint64, err error) {
	d.asked++
	return d.used, d.total, d.err
}

func (d *dial) String() string { return "spoons" }

// drill is a Resource of 80 and 90 percent with what a test turns.
type drill struct {
	*testing.T
	*Resource
	dial *dial
	now  time.Time
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	d := &dial{total: 100}
	r, err := NewResource(d, 80, 90)
	if err != nil {
		t.Fatal(err)
	}
	r.Next = AcceptAll{}
	return &drill{T: t, Resource: r, dial: d, now: time.Unix(1_000_000, 0)}
}

// at sets what is used, a good while later.
func (d *drill) at(percent uint64) {
	d.dial.used = percent
	d.now = d.now.Add(every)
}

// view is this node with tasks 0, 1, … and one more node with the same number.
func (d *drill) view(tasks int) *windlass.View {
	v := view(tasks, 0, tasks)
	v.Now, v.Trigger = d.now, windlass.TriggerDrift
	for i := range v.Running {
		v.Running[i].Token = d.now.Unix() // what was released has come back since
	}
	return v
}

func (d *drill) claims(id string, tasks int) bool {
	d.Helper()
	ok, again := d.CanClaim(d.view(tasks), windlass.Candidate{Task: named(id), Waiting: time.Hour})
	if !ok && !again.After(d.now) {
		d.Errorf("asks for %s to be offered again at %v; it is %v", id, again, d.now)
	}
	return ok
}

func (d *drill) wantRelease(v *windlass.View, want ...string) {
	d.Helper()
	if got := d.Balance(v); !slices.Equal(got, want) {
		d.Errorf("at %d%% it releases %q, want %q", d.dial.used, got, want)
	}
}

// named is a task that is just its ID.
type named string

func (n named) ID() string { return string(n) }

func TestResource_M41_LimitsAreFromOneToAHundredAndInOrder(t *testing.T) {
	for _, c := range []struct {
		claim, release int
		want           string
	}{
		{1, 2, ""}, {99, 100, ""}, {80, 90, ""},
		{0, 50, `claim limit "0": must be from 1 to 100`},
		{-1, 50, `claim limit "-1": must be from 1 to 100`},
		{101, 50, `claim limit "101": must be from 1 to 100`},
		{50, 0, `release limit "0": must be from 1 to 100`},
		{50, 101, `release limit "101": must be from 1 to 100`},
		{50, 50, `claim limit "50": must be below the release limit, which is 50`},
		{90, 80, `claim limit "90": must be below the release limit, which is 80`},
	} {
		_, err := NewResource(&dial{total: 100}, c.claim, c.release)
		if c.want == "" {
			if err != nil {
				t.Errorf("%d and %d: %v", c.claim, c.release, err)
			}
			continue
		}
		var bad *windlass.BadInputError
		if !errors.As(err, &bad) || err.Error() != c.want {
			t.Errorf("%d and %d: %v, want %s", c.claim, c.release, err, c.want)
		}
	}
}

func TestResource_M41_AReporterThatDoesNotWorkIsRefusedAtOnce(t *testing.T) {
	broken := errors.New("no such sensor")
	for want, r := range map[string]Reporter{
		"reporter": nil, "no such sensor": &dial{total: 100, err: broken}, "0 of 0 spoons": &dial{},
	} {
		if _, err := NewResource(r, 80, 90); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}

func TestResource_M41_ClaimsBelowItsClaimLimitOnly(t *testing.T) {
	for used, want := range map[uint64]bool{0: true, 79: true, 80: false, 89: false, 90: false, 100: false, 120: false} {
		d := newDrill(t)
		d.at(used)
		if got := d.claims("x", 3); got != want {
			t.Errorf("at %d%% it claims: %v", used, got)
		}
	}
}

func TestResource_M41_ReleasesTheYoungestAtItsReleaseLimitOneAtATime(t *testing.T) {
	d := newDrill(t)
	d.at(89)
	d.wantRelease(d.view(3))
	d.at(90)
	d.wantRelease(d.view(3), "2")
	d.wantRelease(d.view(3)) // what it used is not free yet
	d.at(90)
	d.wantRelease(d.view(2), "1")
	d.at(89)
	d.wantRelease(d.view(1))
}

func TestResource_M41_IsNotFooledByRounding(t *testing.T) {
	for _, c := range []struct {
		used, total uint64
		want        int
	}{{29, 100, 29}, {7, 100, 7}, {899, 1000, 89}, {1 << 63, 1<<64 - 1, 50}, {1<<64 - 1, 1<<64 - 1, 100}, {3, 1, 300}} {
		if got, err := percentUsed(&dial{used: c.used, total: c.total}); err != nil || got != c.want {
			t.Errorf("%d of %d are %d%% (%v), want %d", c.used, c.total, got, err, c.want)
		}
	}
	if got, _ := percentUsed(&dial{used: 1<<64 - 1, total: 1}); got <= LimitMax {
		t.Errorf("everything of nothing is %d%%", got)
	}
}

func TestResource_M41_ReleasesNothingThatNobodyCouldTake(t *testing.T) {
	d := newDrill(t)
	d.at(99)
	alone := d.view(3)
	alone.Nodes = nil
	d.wantRelease(alone)
	frozen := d.view(3)
	frozen.Nodes[0].Frozen = true
	d.wantRelease(frozen)
	parked := d.view(1)
	parked.Running[0].Parked = true // needs no memory, and moving it frees none
	d.wantRelease(parked)
}

func TestResource_M43_TheOnlyTaskOfAClusterNeverBounces(t *testing.T) {
	d := newDrill(t)
	d.at(99)
	v := d.view(1)
	v.Nodes[0].Tasks = 0
	d.wantRelease(v)
}

func TestResource_M43_ReleasesNoMoreWhileWhatItReleasedWaits(t *testing.T) {
	d := newDrill(t)
	d.at(95)
	d.wantRelease(d.view(3), "2")
	d.at(95)
	if d.claims("2", 2) {
		t.Error("claims it above its limit")
	}
	d.wantRelease(d.view(2))
	d.at(95) // it was not offered again: another node has it
	d.wantRelease(d.view(2), "1")
}

func TestResource_M43_ATaskThatCameBackIsLeftInPeaceForAWhileThatDoubles(t *testing.T) {
	d := newDrill(t)
	last, pauses := time.Time{}, []time.Duration(nil)
	for range 12 * 60 * 6 { // half a day of calls
		d.at(95)
		if len(d.Balance(d.view(2)))+len(d.Balance(d.view(2))) > 1 {
			t.Fatal("releases two at once")
		}
		if at := d.moved.byID["1"].at; at.After(last) {
			if !last.IsZero() {
				pauses = append(pauses, at.Sub(last))
			}
			last = at
		}
	}
	if len(pauses) != 6 || !slices.IsSorted(pauses) || pauses[0] < movePauseMin || pauses[5] > 2*movePauseMax {
		t.Errorf("a task that always comes back is released again after %v", pauses)
	}
	v := d.view(2)
	v.Trigger = windlass.TriggerMembership
	d.at(95)
	v.Now = d.now
	d.wantRelease(v, "1")
}

func TestResource_M43_LeavesWhatItReleasedToOthersFirst(t *testing.T) {
	d := newDrill(t)
	d.at(95)
	d.wantRelease(d.view(3), "2")
	d.dial.used, d.now = 50, d.now.Add(yield-time.Second)
	if d.claims("2", 2) {
		t.Error("takes it back before others could")
	}
	if !d.claims("other", 2) {
		t.Error("takes nothing else")
	}
	d.now = d.now.Add(time.Second)
	if !d.claims("2", 2) {
		t.Error("leaves it for ever")
	}
}

func TestResource_M41_BetweenItsLimitsItEvensOutAsLongAsOthersTake(t *testing.T) {
	d := newDrill(t)
	d.Next = nil // fair
	uneven := func(trigger windlass.Trigger) *windlass.View {
		v := d.view(9)
		v.Nodes[0].Tasks, v.Trigger = 1, trigger
		return v
	}
	d.at(85)
	d.wantRelease(uneven(windlass.TriggerDrift), "8")
	d.at(85)
	if !d.claims("8", 9) || d.claims("other", 9) {
		t.Error("between its limits it takes back what it gave in vain, and nothing else")
	}
	d.wantRelease(uneven(windlass.TriggerDrift))
	d.at(85)
	d.wantRelease(uneven(windlass.TriggerDrift))
	// Being asked because it is time, or once more after a join, is no news either.
	d.wantRelease(uneven(windlass.TriggerReview))
	d.wantRelease(uneven(windlass.TriggerSettling))
	d.wantRelease(uneven(windlass.TriggerCommand), "8")
}

func TestResource_M41_ClaimsInStepsBecauseNeedsShowLate(t *testing.T) {
	for _, c := range []struct{ tasks, percent, want int }{
		{0, 0, claimStep}, {0, 70, claimStep}, {2, 1, claimStep}, {100, 10, 100}, {100, 60, 33}, {1, 79, 1},
	} {
		d := newDrill(t)
		d.at(uint64(c.percent))
		n := c.tasks
		for d.claims(fmt.Sprint("t", n), n) {
			n++
		}
		if n -= c.tasks; n != c.want {
			t.Errorf("with %d tasks at %d%% it claims %d at once, want %d", c.tasks, c.percent, n, c.want)
		}
		d.now = d.now.Add(readEvery)
		if !d.claims("next", c.tasks+n) {
			t.Error("and no more after the next reading")
		}
	}
}

func TestResource_M41_BelowItsLimitsTheNextOneDecides(t *testing.T) {
	d := newDrill(t)
	d.Next = nil // fair
	d.at(10)
	v := d.view(9)
	v.Nodes[0].Tasks = 1
	d.wantRelease(v, "8", "7", "6", "5")
	if ok, _ := d.CanClaim(v, windlass.Candidate{Task: named("x")}); ok {
		t.Error("claims above its share")
	}
}

func TestResource_M41_WhenItsReporterFailsItKeepsWhatItHas(t *testing.T) {
	d := newDrill(t)
	var told []error
	d.Trouble = func(err error) { told = append(told, err) }
	d.at(50)
	if !d.claims("x", 3) {
		t.Fatal("does not claim")
	}
	d.dial.used, d.dial.err, d.now = 99, errors.New("out of order"), d.now.Add(staleMax/2)
	if !d.claims("x", 3) {
		t.Error("forgets its last reading at once")
	}
	d.now = d.now.Add(staleMax)
	if d.claims("x", 3) {
		t.Error("claims without knowing what is used")
	}
	d.wantRelease(d.view(3))
	if len(told) != 1 || !errors.Is(told[0], d.dial.err) {
		t.Errorf("tells %v of one row of failures", told)
	}
	d.dial.err, d.now = nil, d.now.Add(readEvery)
	d.wantRelease(d.view(3), "2")
}

func TestResource_ReadsOnceASecondAtMost(t *testing.T) {
	d := newDrill(t)
	d.at(50)
	d.dial.asked = 0
	for range 10 {
		d.claims("x", 3)
		d.Balance(d.view(3))
		d.now = d.now.Add(readEvery / 5)
	}
	if d.dial.asked != 2 {
		t.Errorf("asked %d times in two seconds", d.dial.asked)
	}
}

func TestResource_AsksToBeAskedWhenNothingChanges(t *testing.T) {
	d := newDrill(t)
	if d.ReviewEvery() <= releasePause {
		t.Errorf("every %v, which is too early to release again", d.ReviewEvery())
	}
}
