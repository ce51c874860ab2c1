package balancer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
)

// fakeReporter is a Reporter whose reading is set by a test.
type fakeReporter struct {
	used, total uint64
	err         error
	asked       int
}

func (d *fakeReporter) Used() (used, total uint64, err error) {
	d.asked++
	return d.used, d.total, d.err
}

func (d *fakeReporter) String() string { return "units" }

// setup is a Resource with limits of 80 and 90 percent, and its inputs.
type setup struct {
	*testing.T
	*Resource
	reporter *fakeReporter
	now      time.Time
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	d := &fakeReporter{total: 100}
	r, err := NewResource(d, 80, 90)
	if err != nil {
		t.Fatal(err)
	}
	r.Next = AcceptAll{}
	return &setup{T: t, Resource: r, reporter: d, now: time.Unix(1_000_000, 0)}
}

// at sets the usage, and lets enough time pass for another release.
func (d *setup) at(percent uint64) {
	d.reporter.used = percent
	d.now = d.now.Add(every)
}

// view returns this node with tasks 0, 1, … and another node with as many.
func (d *setup) view(tasks int) *windlass.View {
	v := view(tasks, 0, tasks)
	v.Now, v.Trigger = d.now, events.TriggerDrift
	for i := range v.Running {
		v.Running[i].Token = d.now.Unix() // released tasks have come back with a new claim
	}
	return v
}

func (d *setup) claims(id string, tasks int) bool {
	d.Helper()
	ok, again := d.CanClaim(d.view(tasks), windlass.Candidate{Task: named(id), Waiting: time.Hour})
	if !ok && !again.After(d.now) {
		d.Errorf("at %v it wants to be asked again about %s at %v", d.now, id, again)
	}
	return ok
}

func (d *setup) wantRelease(v *windlass.View, want ...string) {
	d.Helper()
	if got := d.Balance(v); !slices.Equal(got, want) {
		d.Errorf("at %d%% it releases %q, want %q", d.reporter.used, got, want)
	}
}

// named is a task that has only an ID.
type named string

func (n named) ID() string { return string(n) }

func TestResource_M41_RefusesLimitsOutOfRangeOrOrder(t *testing.T) {
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
		_, err := NewResource(&fakeReporter{total: 100}, c.claim, c.release)
		var bad *windlass.BadInputError
		if (c.want != "" || err != nil) && (!errors.As(err, &bad) || err.Error() != c.want) {
			t.Errorf("%d and %d: %v, want %q", c.claim, c.release, err, c.want)
		}
	}
}

func TestResource_M41_RefusesAReporterThatFailsAtOnce(t *testing.T) {
	broken := errors.New("no such sensor")
	for want, r := range map[string]Reporter{
		"reporter": nil, "no such sensor": &fakeReporter{total: 100, err: broken}, "0 of 0 units": &fakeReporter{},
	} {
		if _, err := NewResource(r, 80, 90); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}

func TestResource_M41_ClaimsBelowItsClaimLimitOnly(t *testing.T) {
	for used, want := range map[uint64]bool{0: true, 79: true, 80: false, 89: false, 90: false, 100: false, 120: false} {
		d := newSetup(t)
		d.at(used)
		if got := d.claims("x", 3); got != want {
			t.Errorf("claims at %d%%: %v", used, got)
		}
	}
}

func TestResource_M41_ReleasesTheYoungestTaskAtItsReleaseLimitOneAtATime(t *testing.T) {
	d := newSetup(t)
	d.at(89)
	d.wantRelease(d.view(3))
	d.at(90)
	d.wantRelease(d.view(3), "2")
	d.wantRelease(d.view(3)) // the memory of the first is not free yet
	d.at(90)
	d.wantRelease(d.view(2), "1")
	d.at(89)
	d.wantRelease(d.view(1))
}

func TestResource_M41_RoundsPercentagesDown(t *testing.T) {
	for _, c := range []struct {
		used, total uint64
		want        int
	}{{29, 100, 29}, {7, 100, 7}, {899, 1000, 89}, {1 << 63, 1<<64 - 1, 50}, {1<<64 - 1, 1<<64 - 1, 100}, {3, 1, 300}} {
		if got, err := percentUsed(&fakeReporter{used: c.used, total: c.total}); err != nil || got != c.want {
			t.Errorf("%d of %d are %d%% (%v), want %d", c.used, c.total, got, err, c.want)
		}
	}
	if got, _ := percentUsed(&fakeReporter{used: 1<<64 - 1, total: 1}); got <= LimitMax {
		t.Errorf("the largest number of 1 is %d%%", got)
	}
}

func TestResource_M41_ReleasesNothingThatNoOtherNodeCouldTake(t *testing.T) {
	d := newSetup(t)
	d.at(99)
	alone := d.view(3)
	alone.Nodes = nil
	d.wantRelease(alone)
	frozen := d.view(3)
	frozen.Nodes[0].Frozen = true
	d.wantRelease(frozen)
	parked := d.view(1)
	parked.Running[0].Parked = true // moving it frees no memory
	d.wantRelease(parked)
}

func TestResource_M43_NeverMovesTheOnlyTaskOfACluster(t *testing.T) {
	d := newSetup(t)
	d.at(99)
	v := d.view(1)
	v.Nodes[0].Tasks = 0
	d.wantRelease(v)
}

func TestResource_M43_ReleasesNoMoreWhileAReleasedTaskWaits(t *testing.T) {
	d := newSetup(t)
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

func TestResource_M43_ATaskThatComesBackIsKeptForAPauseThatDoubles(t *testing.T) {
	d := newSetup(t)
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
	v.Trigger = events.TriggerMembership
	d.at(95)
	v.Now = d.now
	d.wantRelease(v, "1")
}

func TestResource_M43_LeavesAReleasedTaskToOthersFirst(t *testing.T) {
	d := newSetup(t)
	d.at(95)
	d.wantRelease(d.view(3), "2")
	d.reporter.used, d.now = 50, d.now.Add(yield-time.Second)
	if d.claims("2", 2) {
		t.Error("takes it back before others could")
	}
	if !d.claims("other", 2) {
		t.Error("claims no other task")
	}
	d.now = d.now.Add(time.Second)
	if !d.claims("2", 2) {
		t.Error("never takes it back")
	}
}

func TestResource_M41_BetweenItsLimitsItBalancesUntilATaskComesBack(t *testing.T) {
	d := newSetup(t)
	d.Next = nil // fair
	uneven := func(trigger events.Trigger) *windlass.View {
		v := d.view(9)
		v.Nodes[0].Tasks, v.Trigger = 1, trigger
		return v
	}
	d.at(85)
	d.wantRelease(uneven(events.TriggerDrift), "8")
	d.at(85)
	if !d.claims("8", 9) || d.claims("other", 9) {
		t.Error("between its limits, want it to take back the task it released, and no other")
	}
	d.wantRelease(uneven(events.TriggerDrift))
	d.at(85)
	d.wantRelease(uneven(events.TriggerDrift))
	// Neither a review nor a further check after a join ends that.
	d.wantRelease(uneven(events.TriggerReview))
	d.wantRelease(uneven(events.TriggerSettling))
	d.wantRelease(uneven(events.TriggerCommand), "8")
}

func TestResource_M41_ClaimsInStepsBetweenTwoReadings(t *testing.T) {
	for _, c := range []struct{ tasks, percent, want int }{
		{0, 0, claimStep}, {0, 70, claimStep}, {2, 1, claimStep}, {100, 10, 100}, {100, 60, 33}, {1, 79, 1},
	} {
		d := newSetup(t)
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
			t.Error("claims no more after the next reading")
		}
	}
}

func TestResource_M41_BelowItsLimitsNextDecides(t *testing.T) {
	d := newSetup(t)
	d.Next = nil // fair
	d.at(10)
	v := d.view(9)
	v.Nodes[0].Tasks = 1
	d.wantRelease(v, "8", "7", "6", "5")
	if ok, _ := d.CanClaim(v, windlass.Candidate{Task: named("x")}); ok {
		t.Error("claims above its share")
	}
}

func TestResource_M41_KeepsItsTasksAndClaimsNoneWhileItsReporterFails(t *testing.T) {
	d := newSetup(t)
	var told []error
	d.Trouble = func(err error) { told = append(told, err) }
	d.at(50)
	if !d.claims("x", 3) {
		t.Fatal("does not claim")
	}
	d.reporter.used, d.reporter.err, d.now = 99, errors.New("out of order"), d.now.Add(staleMax/2)
	if !d.claims("x", 3) {
		t.Error("does not use its last reading")
	}
	d.now = d.now.Add(staleMax)
	if d.claims("x", 3) {
		t.Error("claims without knowing the usage")
	}
	d.wantRelease(d.view(3))
	if len(told) != 1 || !errors.Is(told[0], d.reporter.err) {
		t.Errorf("reports %v for consecutive failures, want the first", told)
	}
	d.reporter.err, d.now = nil, d.now.Add(readEvery)
	d.wantRelease(d.view(3), "2")
}

func TestResource_ReadsOnceASecondAtMost(t *testing.T) {
	d := newSetup(t)
	d.at(50)
	d.reporter.asked = 0
	for range 10 {
		d.claims("x", 3)
		d.Balance(d.view(3))
		d.now = d.now.Add(readEvery / 5)
	}
	if d.reporter.asked != 2 {
		t.Errorf("asked %d times in two seconds", d.reporter.asked)
	}
}

func TestResource_ReviewsLateEnoughToReleaseAgain(t *testing.T) {
	if d := newSetup(t); d.ReviewEvery() <= releasePause {
		t.Errorf("it is reviewed every %v, want more than %v", d.ReviewEvery(), releasePause)
	}
}
