package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestFleet_LearnsWhichTypesEndAtOnce(t *testing.T) {
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

func TestFleet_WhatEndsSoonIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name          string
		took          []time.Duration
		running       time.Duration
		drift, settle bool
	}{
		{"nothing is known", nil, 0, false, false},
		{"one has ended", times(time.Second, 1), time.Second, false, true},
		{"eight have ended", times(time.Second, 8), time.Second, true, true},
		{"it is much older than they became", times(time.Second, 8), 5 * time.Second, false, true},
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

func TestFleet_TypesThatAreWatchedAreBounded(t *testing.T) {
	f := newTestFleet()
	for i := range 3 * typesMax {
		f.Ended(fmt.Sprint(i), time.Millisecond, start)
	}
	if n := len(f.lifetimes.byType); n > typesMax {
		t.Errorf("%d types are watched", n)
	}
}

func times(d time.Duration, n int) (all []time.Duration) {
	for range n {
		all = append(all, d)
	}
	return all
}

// endsAt notes that so many tasks of a type have ended at a time after the start.
func (f *Fleet) endsAt(at time.Duration, taskType string, took ...time.Duration) {
	for _, d := range took {
		f.Ended(taskType, d, after(at))
	}
}

// names returns the types that a node names at a time after the start.
func (f *Fleet) names(at time.Duration) []string {
	types, _ := f.Named(after(at))
	return types
}

// What a node has seen itself does not overrule what another names: the two would place tasks
// differently for as long as they have seen different ones.
func TestFleet_NodesAgreeWhichTypesAreShortLivedOnceOneHasNamedThem(t *testing.T) {
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
				t.Error("the one that names it does not go by it")
			}
			if c := other.Update([]Peer{peer("one", named)}, published(nil), start); c.ShortLived {
				t.Error("the same names are taken for others")
			}
			if c := other.Update(nil, published(nil), start); !c.ShortLived || other.ShortLived()["t"] {
				t.Errorf("%+v, and after the node has gone short-lived are %v", c, other.ShortLived())
			}
		})
	}
}

func TestFleet_ATypeWhoseTasksTakeLongAgainIsDroppedAndNotNamedForAWhile(t *testing.T) {
	f := newTestFleet()
	f.endsAt(0, "t", times(time.Millisecond, 40)...)
	f.names(0)
	f.endsAt(nameEvery, "t", time.Minute)
	if got := f.names(nameEvery); len(got) > 0 || f.ShortLived()["t"] {
		t.Errorf("named are %v, and short-lived %v", got, f.ShortLived())
	}
	f.endsAt(2*nameEvery, "t", times(time.Millisecond, 100)...)
	if got := f.names(3 * nameEvery); len(got) > 0 {
		t.Errorf("soon after, named are %v", got)
	}
	f.endsAt(2*namedAgainAfter, "t", time.Millisecond)
	if got := f.names(2 * namedAgainAfter); !slices.Equal(got, []string{"t"}) {
		t.Errorf("named are %v", got)
	}
}

// Others of the type may have begun to last, which none that ends can show.
func TestFleet_ATypeOfWhichNothingEndsIsDropped(t *testing.T) {
	f := newTestFleet()
	f.endsAt(0, "t", times(time.Millisecond, 40)...)
	f.names(0)
	f.endsAt(time.Minute, "t", time.Millisecond)
	if got := f.names(namedFor); !slices.Equal(got, []string{"t"}) {
		t.Errorf("while some end, named are %v", got)
	}
	lapse := time.Minute + namedFor
	if at := f.NextNamed(); !at.Equal(after(lapse)) {
		t.Errorf("they are looked at again at %v", at)
	}
	if got := f.names(lapse); len(got) > 0 || !f.NextNamed().IsZero() {
		t.Errorf("named are %v, to be looked at again at %v", got, f.NextNamed())
	}
	f.endsAt(2*lapse, "t", time.Millisecond)
	if got := f.names(2 * lapse); !slices.Equal(got, []string{"t"}) {
		t.Errorf("when one has ended, named are %v", got)
	}
}

func TestFleet_WhatItNamesChangesOnceASecondAtMost(t *testing.T) {
	f := newTestFleet()
	changes := 0
	for i := range 1000 {
		at := time.Duration(i) * 10 * time.Millisecond
		f.endsAt(at, fmt.Sprint("t", i/10), time.Millisecond)
		if _, changed := f.Named(after(at)); changed {
			changes++
		}
		if next := f.NextNamed(); !next.IsZero() && !next.After(after(at)) {
			t.Fatalf("at %v it is to be asked again at %v", at, next)
		}
	}
	if changes != 10 {
		t.Errorf("it has changed %d times in ten seconds", changes)
	}
}

// Those that are named stay, or every new type would change what all nodes do.
func TestFleet_TypesThatANodeNamesAreBounded(t *testing.T) {
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
		t.Errorf("after many other types, named are %v", again)
	}
}

func TestFleet_DecidesOnceASecondWhichTypesItNamesHoweverManyThereAre(t *testing.T) {
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
		t.Fatalf("it names %d, changed %v", len(types), changed)
	}
	for at := nameEvery; at < 5*nameEvery; at += nameEvery {
		end(at) // of the one that there is no room for, too
		if _, changed := f.Named(after(at)); changed {
			t.Errorf("after %v it names others", at)
		}
		end(at)
		if next := f.NextNamed(); !next.Equal(after(at + nameEvery)) {
			t.Errorf("after %v it decides again at %v", at, next)
		}
	}
}
