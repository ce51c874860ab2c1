package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestFleet_LearnsWhichTypesAreShortLived(t *testing.T) {
	short, long := 10*time.Millisecond, time.Minute
	for _, tt := range []struct {
		name               string
		took               []time.Duration
		shortLived, surely bool
	}{
		{"none has ended", nil, false, false},
		{"three were short", times(short, 3), false, false},
		{"four were short", times(short, 4), true, false},
		{"thirty-two were short", times(short, 32), true, true},
		{"all are long", times(long, 40), false, false},
		{"one was long after many", append(times(short, 40), long), false, false},
		{"many were short after a long one", append(times(long, 1), times(short, 100)...), true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTestFleet()
			for i, took := range tt.took {
				f.Ended("t", took, after(time.Duration(i)*10*time.Second))
			}
			f.Named(after(time.Duration(len(tt.took)) * 10 * time.Second))
			if f.ShortLived()["t"] != tt.shortLived || f.SurelyShortLived()["t"] != tt.surely {
				t.Errorf("short-lived %v, surely %v", f.ShortLived()["t"], f.SurelyShortLived()["t"])
			}
		})
	}
}

func TestFleet_DoesNotMoveTasksThatEndSoon(t *testing.T) {
	for _, tt := range []struct {
		name          string
		took          []time.Duration
		running       time.Duration
		drift, settle bool
	}{
		{"nothing is known", nil, 0, false, false},
		{"one has ended", times(time.Second, 1), time.Second, false, true},
		{"eight have ended", times(time.Second, 8), time.Second, true, true},
		{"it is much older than they were", times(time.Second, 8), 5 * time.Second, false, true},
		{"they last", times(time.Minute, 8), time.Second, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newTestFleet()
			for _, took := range tt.took {
				f.Ended("t", took, start)
			}
			if f.EndsSoon("t", tt.running, false) != tt.drift || f.EndsSoon("t", tt.running, true) != tt.settle {
				t.Errorf("for drift %v, to settle %v", !tt.drift, !tt.settle)
			}
		})
	}
}

func TestFleet_LimitsTheTypesItObserves(t *testing.T) {
	f := newTestFleet()
	for i := range 3 * typesMax {
		f.Ended(fmt.Sprint(i), time.Millisecond, start)
	}
	if n := len(f.lifetimes.byType); n > typesMax {
		t.Errorf("%d types are observed", n)
	}
}

func times(d time.Duration, n int) (all []time.Duration) {
	for range n {
		all = append(all, d)
	}
	return all
}

// endsAt records that tasks of a type have ended at a time after the start.
func (f *Fleet) endsAt(at time.Duration, taskType string, took ...time.Duration) {
	for _, d := range took {
		f.Ended(taskType, d, after(at))
	}
}

// names returns the types that a node reports at a time after the start.
func (f *Fleet) names(at time.Duration) []string {
	types, _ := f.Named(after(at))
	return types
}

// A node's own observations do not overrule another node's report, or the two would
// place tasks differently for as long as their observations differ.
func TestFleet_NodesAgreeOnAShortLivedTypeOnceOneReportsIt(t *testing.T) {
	for name, seen := range map[string][]time.Duration{"nothing": nil, "short ones": times(time.Millisecond, 3), "long ones": times(time.Minute, 9)} {
		t.Run(name, func(t *testing.T) {
			one, other := newTestFleet(peer("other")), newTestFleet(peer("one"))
			one.endsAt(0, "t", times(time.Millisecond, shortLivedAfter)...)
			other.endsAt(0, "t", seen...)
			named := func(p *Peer) { p.ShortLived = one.names(0) }
			if c := other.Update([]Peer{peer("one", named)}, published(nil), start); !c.ShortLived || !c.Same || !other.ShortLived()["t"] {
				t.Errorf("%+v, and short-lived are %v", c, other.ShortLived())
			}
			if !one.ShortLived()["t"] {
				t.Error("the node that reports the type does not treat it as short-lived")
			}
			if c := other.Update([]Peer{peer("one", named)}, published(nil), start); c.ShortLived {
				t.Error("the same report counts as a change")
			}
			if c := other.Update(nil, published(nil), start); !c.ShortLived || other.ShortLived()["t"] {
				t.Errorf("%+v, and after the node has left short-lived are %v", c, other.ShortLived())
			}
		})
	}
}

func TestFleet_DropsATypeWhoseTasksTakeLongAndReportsItLaterAgain(t *testing.T) {
	f := newTestFleet()
	f.endsAt(0, "t", times(time.Millisecond, 40)...)
	f.names(0)
	f.endsAt(nameEvery, "t", time.Minute)
	if got := f.names(nameEvery); len(got) > 0 || f.ShortLived()["t"] {
		t.Errorf("reported are %v, and short-lived %v", got, f.ShortLived())
	}
	f.endsAt(2*nameEvery, "t", times(time.Millisecond, 100)...)
	if got := f.names(3 * nameEvery); len(got) > 0 {
		t.Errorf("soon after, reported are %v", got)
	}
	f.endsAt(2*namedAgainAfter, "t", time.Millisecond)
	if got := f.names(2 * namedAgainAfter); !slices.Equal(got, []string{"t"}) {
		t.Errorf("reported are %v", got)
	}
}

// Its tasks may take long by now, which only a task that ends can show.
func TestFleet_DropsATypeOfWhichNoTaskEnds(t *testing.T) {
	f := newTestFleet()
	f.endsAt(0, "t", times(time.Millisecond, 40)...)
	f.names(0)
	f.endsAt(time.Minute, "t", time.Millisecond)
	if got := f.names(namedFor); !slices.Equal(got, []string{"t"}) {
		t.Errorf("while some end, reported are %v", got)
	}
	lapse := time.Minute + namedFor
	if at := f.NextNamed(); !at.Equal(after(lapse)) {
		t.Errorf("the next check is at %v", at)
	}
	if got := f.names(lapse); len(got) > 0 || !f.NextNamed().IsZero() {
		t.Errorf("reported are %v, and the next check is at %v", got, f.NextNamed())
	}
	f.endsAt(2*lapse, "t", time.Millisecond)
	if got := f.names(2 * lapse); !slices.Equal(got, []string{"t"}) {
		t.Errorf("when one has ended, reported are %v", got)
	}
}

func TestFleet_ItsReportChangesOnceASecondAtMost(t *testing.T) {
	f := newTestFleet()
	changes := 0
	for i := range 1000 {
		at := time.Duration(i) * 10 * time.Millisecond
		f.endsAt(at, fmt.Sprint("t", i/10), time.Millisecond)
		if _, changed := f.Named(after(at)); changed {
			changes++
		}
		if next := f.NextNamed(); !next.IsZero() && !next.After(after(at)) {
			t.Fatalf("at %v the next check is at %v", at, next)
		}
	}
	if changes != 10 {
		t.Errorf("%d changes in ten seconds", changes)
	}
}

// Reported types stay, or every new type would change the plans of all nodes.
func TestFleet_LimitsTheTypesItReports(t *testing.T) {
	f := newTestFleet()
	f.endsAt(0, "z", times(time.Millisecond, 4)...)
	f.names(0)
	for i := range 3 * ShortLivedMax {
		f.endsAt(time.Second, fmt.Sprintf("t%03d", i), times(time.Millisecond, 4)...)
	}
	got := f.names(time.Minute)
	if len(got) != ShortLivedMax || !slices.IsSorted(got) || got[0] != "t000" || got[ShortLivedMax-1] != "z" {
		t.Errorf("%d: %v", len(got), got)
	}
	for i := range 2 * typesMax {
		f.endsAt(time.Minute, fmt.Sprintf("u%04d", i), time.Second)
	}
	if again := f.names(2 * time.Minute); !slices.Equal(got, again) {
		t.Errorf("after many other types, reported are %v", again)
	}
}

func TestFleet_DecidesOnceASecondEvenWithMoreTypesThanItCanReport(t *testing.T) {
	f := newTestFleet()
	end := func(at time.Duration) {
		for i := range ShortLivedMax + 1 {
			f.Ended(fmt.Sprint("t", i), time.Millisecond, after(at))
		}
	}
	for range shortLivedAfter {
		end(0)
	}
	if types, changed := f.Named(after(0)); len(types) != ShortLivedMax || !changed {
		t.Fatalf("it reports %d, changed %v", len(types), changed)
	}
	for at := nameEvery; at < 5*nameEvery; at += nameEvery {
		end(at) // one of these types exceeds the limit
		if _, changed := f.Named(after(at)); changed {
			t.Errorf("after %v its report changes", at)
		}
		end(at)
		if next := f.NextNamed(); !next.Equal(after(at + nameEvery)) {
			t.Errorf("after %v it decides again at %v", at, next)
		}
	}
}
