package life

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/statemachine"
)

var (
	heldStates = []statemachine.State{statemachine.Runnable, statemachine.Sleeping, statemachine.Paused, statemachine.Fault}
	messages   = []statemachine.Message{
		statemachine.Run, statemachine.Sleep, statemachine.Pause, statemachine.Checkpoint, statemachine.Release,
		statemachine.Error, statemachine.Complete, statemachine.Kill,
	}
)

// messageTable prints what each message makes of a task in each state.
func messageTable() string {
	var b strings.Builder
	b.WriteString("| message |")
	for _, s := range heldStates {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(heldStates)+1) + "\n")
	later := time.Now().Add(time.Hour)
	for _, m := range messages {
		fmt.Fprintf(&b, "| %s |", m)
		for _, s := range heldStates {
			r := Record{State: s}
			c := statemachine.Command{Message: m}
			if m == statemachine.Sleep {
				c.Until = &later
			}
			switch deed, err := r.Apply(c); {
			case err != nil:
				b.WriteString(" refused |")
			case deed == Save || deed == End:
				fmt.Fprintf(&b, " %v as %s |", deed, r.State)
			default:
				fmt.Fprintf(&b, " %v |", deed)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestRecord_NextIsWhatItsStateSays(t *testing.T) {
	now := time.Now()
	later := now.Add(time.Second)
	for _, c := range []struct {
		record     Record
		typePaused bool
		want       Next
	}{
		{Record{State: statemachine.Runnable}, false, Start},
		{Record{State: statemachine.Completed}, false, Remove},
		{Record{State: statemachine.Sleeping, Until: &later}, false, Wait},
		{Record{State: statemachine.Sleeping, Until: &now}, false, Wake},
		{Record{State: statemachine.Paused}, false, Stay},
		{Record{State: statemachine.Paused, TypePaused: true}, true, Stay},
		{Record{State: statemachine.Paused, TypePaused: true}, false, Wake},
		{Record{State: statemachine.Fault}, false, Decide},
	} {
		if got := c.record.Next(now, c.typePaused); got != c.want {
			t.Errorf("%+v, its type paused: %t: %v, want %v", c.record, c.typePaused, got, c.want)
		}
	}
}

func TestRecord_APauseBySomebodyOutlivesThatOfTheType(t *testing.T) {
	r := Record{State: statemachine.Runnable}
	if r.Wake(true); r.Next(time.Now(), true) != Stay || r.Next(time.Now(), false) != Wake {
		t.Fatalf("paused with its type: %+v", r)
	}
	if deed, err := r.Apply(statemachine.Command{Message: statemachine.Pause}); deed != Save || err != nil {
		t.Fatalf("a pause of a task that is paused with its type: %v, %v", deed, err)
	}
	if got := r.Next(time.Now(), false); got != Stay {
		t.Errorf("the type is paused no more, and the task: %v, want %v", got, Stay)
	}
}

func TestRecord_WhatIsRefusedChangesNothing(t *testing.T) {
	for _, s := range heldStates {
		for _, m := range messages {
			r := Record{State: s, Failures: 3}
			_, err := r.Apply(statemachine.Command{Message: m})
			if err == nil {
				continue
			}
			if wrong := (*statemachine.TransitionError)(nil); !errors.As(err, &wrong) || r.State != s || r.Failures != 3 {
				t.Errorf("%q of a task that is %s: %v, and it is %+v", m, s, err, r)
			}
		}
	}
}

func TestRecord_AnErrorIsResolved(t *testing.T) {
	now := time.Now()
	later, latest := now.Add(time.Minute), now.Add(time.Hour)
	for _, c := range []struct {
		was       Record
		decision  statemachine.Command
		deed      Deed
		state     statemachine.State
		until     *time.Time
		lastError string
	}{
		{Record{}, statemachine.Command{Message: statemachine.Run}, Save, statemachine.Runnable, nil, "boom"},
		{Record{}, statemachine.SleepUntil(later), Save, statemachine.Sleeping, &later, "boom"},
		{Record{Until: &latest}, statemachine.SleepUntil(later), Save, statemachine.Sleeping, &latest, "boom"}, // it slept
		{Record{}, statemachine.Command{Message: statemachine.Error, Error: "too often"}, End, statemachine.Failed, nil, "too often"},
		{Record{}, statemachine.Command{Message: statemachine.Kill}, End, statemachine.Killed, nil, "boom"},
		{Record{}, statemachine.Command{Message: "nonsense"}, End, statemachine.Failed, nil, "boom"},
	} {
		r := c.was
		r.State = statemachine.Fault
		r.AddError("boom", statemachine.RetryPolicy{}, now)
		deed := r.Resolve(c.decision, now)
		if deed != c.deed || r.State != c.state || !sameTime(r.Until, c.until) || statemachine.LastError(r.Errors) != c.lastError || r.Failures != 1 {
			t.Errorf("%+v: %v, %+v, want %v as %s until %v after %q", c.decision, deed, r, c.deed, c.state, c.until, c.lastError)
		}
	}
}

func TestRecord_IsStoredAsItWasRead(t *testing.T) {
	until := time.Now()
	stored := statemachine.Record{
		State: statemachine.Paused, Until: &until, Failures: 2, Result: []byte("7"), TypePaused: true, Command: 9, Unknown: "x",
		Errors: []statemachine.ErrorEntry{{Error: "boom"}},
	}
	r := RecordOf(stored)
	if got := r.Stored(); fmt.Sprint(got) != fmt.Sprint(stored) {
		t.Errorf("stored as %+v, want %+v", got, stored)
	}
}
