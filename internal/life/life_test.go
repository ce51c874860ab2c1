package life

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/statemachine"
)

// The tables are printed, and docs/internals/life.md has them as they are.
func TestLife_AsItIsInTheDocuments(t *testing.T) {
	document, err := os.ReadFile("../../docs/internals/life.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{phaseTable(), verdictTable(), messageTable()} {
		t.Log("\n" + table)
		if !strings.Contains(string(document), table) {
			t.Errorf("docs/internals/life.md does not have the table above")
		}
	}
}

func phaseTable() string {
	var b strings.Builder
	fmt.Fprint(&b, "| event |")
	for p := Running; p < phases; p++ {
		fmt.Fprintf(&b, " %v |", p)
	}
	b.WriteString("\n|" + strings.Repeat("---|", int(phases)) + "\n")
	for e := range events {
		fmt.Fprintf(&b, "| %s |", eventNames[e])
		for p := Running; p < phases; p++ {
			fmt.Fprintf(&b, " %v |", p.On(e))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func verdictTable() string {
	var b strings.Builder
	b.WriteString("| # | if | verdict |\n|---|---|---|\n")
	for i, r := range rules {
		fmt.Fprintf(&b, "| %d | %s | %v |\n", i+1, r.name, r.verdict)
	}
	return b.String()
}

// A task without a handler is never told to stop one, and one with a handler is never given back or forgotten before
// that has returned.
func TestLife_NoHandlerIsLeftBehindOrMissed(t *testing.T) {
	for e := range events {
		for p := range phases {
			handler := p == Running || p == Stopping
			switch reaction := p.On(e); {
			case handler && (reaction == Act || reaction == GiveBack || reaction == Forget):
				t.Errorf("%s while it is %v: %v, beside its handler", eventNames[e], p, reaction)
			case !handler && (reaction == StopHandler || reaction == Tell):
				t.Errorf("%s while it is %v: %v, and there is none", eventNames[e], p, reaction)
			case p == Beginning && reaction != Nothing:
				t.Errorf("%s before anything is decided: %v", eventNames[e], reaction)
			}
		}
	}
}

// returns yields every way in which a handler can return.
func returns(yield func(Return)) {
	messages := []statemachine.Message{"", statemachine.Run, statemachine.Sleep, statemachine.Pause, statemachine.Kill, statemachine.Error,
		statemachine.Complete, statemachine.Checkpoint, statemachine.Release}
	for bits := range 1 << 9 {
		is := func(n int) bool { return bits&(1<<n) != 0 }
		for _, m := range messages {
			yield(Return{
				ClaimLost: is(0), SessionLost: is(1), Deleted: is(2), Killed: is(3), Commanded: is(4), Rests: is(5), Expired: is(6), Stopped: is(7),
				HasSaid: is(8), Said: m,
			})
		}
	}
}

func TestVerdict_WhateverComesTogether(t *testing.T) {
	reached := map[string]bool{}
	returns(func(r Return) {
		for _, rule := range rules {
			if rule.applies(r) {
				reached[rule.name] = true
				break
			}
		}
		v := r.Verdict()
		done := r.HasSaid && r.Said == statemachine.Complete
		switch {
		case r.ClaimLost && !r.SessionLost && v != Drop, r.SessionLost && v != Drop && v != DropLost && v != Complete:
			t.Fatalf("%+v: %v, though the claim is gone", r, v)
		case r.Deleted && v != Abandon && v != Drop:
			t.Fatalf("%+v: %v, though the task was deleted", r, v)
		case r.Killed && v == Complete:
			t.Fatalf("%+v: %v, though a command kills it", r, v)
		case v == Heed && !r.HasSaid, v == Complete && !done:
			t.Fatalf("%+v: %v, and it has not said so", r, v)
		case v == Fail && (r.Stopped || r.HasSaid):
			t.Fatalf("%+v: %v, though it was told to stop or has said something", r, v)
		}
	})
	for _, rule := range rules {
		if !reached[rule.name] {
			t.Errorf("the rule %q never decides", rule.name)
		}
	}
}
