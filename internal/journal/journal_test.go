package journal

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// records returns what a journal of node n has to write after some calls for a claim.
func records(do func(j *Journal, c *Claim)) []coordinator.AuditRecord {
	j := New("n", "i", 10, nil)
	do(j, &Claim{Ref: coordinator.Ref{ID: "t", Token: 9}, At: at, Reason: "placed"})
	c, _ := j.Take(at.Add(time.Hour), true, false)
	return c.Values
}

// The history is read by people, so what it says is text, and whether it counts as an interruption is not.
func TestJournal_M55_WhatAHistorySays(t *testing.T) {
	for _, c := range []struct {
		do   func(j *Journal, c *Claim)
		want string
	}{
		{func(j *Journal, c *Claim) { j.Granted(c, true, ", submitted by ann", nil) }, `claimed 9 "placed, submitted by ann"`},
		{func(j *Journal, c *Claim) {
			j.Granted(c, false, "", []mirror.End{{}, {Node: "m", Token: 7, At: at, Process: "supervisor"}})
		}, `lost 7 "the supervisor that ran it died" interrupted; claimed 9 "placed"`},
		{func(j *Journal, c *Claim) {
			j.Stored(c, &life.Record{State: statemachine.Paused, TypePaused: true}, false, at)
		}, `paused 9 "its type is paused"`},
		{func(j *Journal, c *Claim) {
			j.Stored(c, &life.Record{State: statemachine.Failed, Errors: []statemachine.ErrorEntry{{Error: "boom"}}}, false, at)
		}, `failed 9 "boom"`},
		{func(j *Journal, c *Claim) { j.Released(c, nil, "", true, at) }, `released 9 "by its handler, or before it had one"`},
		{func(j *Journal, c *Claim) { j.Released(c, life.ErrDraining, "", true, at) }, `released 9 "the node is draining" interrupted`},
		{func(j *Journal, c *Claim) { j.Released(c, life.ErrDeleted, "", true, at) }, `released 9 "the task was deleted"`},
		{func(j *Journal, c *Claim) { j.Released(c, life.ErrReleased, "m", true, at) }, `released 9 "to move to node m" interrupted`},
		{func(j *Journal, c *Claim) { j.Released(c, life.ErrReleased, "m", false, at) }, `released 9 "to move to node m"`},
		{func(j *Journal, c *Claim) { j.Released(c, life.ErrUpdated, "n", true, at) }, `released 9 "to run again here: the task was changed or restarted"`},
		{func(j *Journal, c *Claim) { j.Released(c, life.Crash{Process: "supervisor"}, "", true, at) }, `lost 9 "the supervisor that ran it died" interrupted`},
		{func(j *Journal, c *Claim) { j.Updated(c, "ann", "its tags were changed", at) }, `updated 9 "its tags were changed, by ann"`},
		{func(j *Journal, c *Claim) {
			j.Commanded(c, statemachine.Command{Message: statemachine.Pause, By: "ann"}, errors.New("no"), at)
		}, `command 9 "pause, by ann: discarded: no"`},
		{func(j *Journal, c *Claim) {
			j.Commanded(c, statemachine.Command{Message: statemachine.Checkpoint}, nil, at)
		}, ``},
	} {
		got := ""
		for _, r := range records(c.do) {
			for i, e := range r.History {
				if i > 0 {
					got += "; "
				}
				got += fmt.Sprintf("%s %d %q", e.Event, e.Token, e.Detail)
				if e.Interruption {
					got += " interrupted"
				}
			}
		}
		if got != c.want {
			t.Errorf("the history says %s, want %s", got, c.want)
		}
	}
}

func TestJournal_ALoopIsToldOnceAnHour(t *testing.T) {
	loops := 0
	restarts := func(n int, after time.Duration) statemachine.Restarts {
		return statemachine.Restarts{InARow: n, LastEnd: "exit status 1", LastAt: at.Add(after)}
	}
	for _, r := range records(func(j *Journal, c *Claim) {
		for _, after := range []time.Duration{0, time.Minute, loopEvery} {
			for n := range statemachine.RestartsMany + 2 {
				j.Restarted(c, restarts(n, after))
			}
		}
		j.Returned(c)
	}) {
		for _, e := range r.History {
			if e.Event == statemachine.EventLooping {
				loops++
			}
		}
		if r.Claimed == nil || r.Claimed.Restarts != nil {
			t.Errorf("the handler has returned, and its restarts are recorded: %+v", r.Claimed)
		}
	}
	if loops != 2 {
		t.Errorf("the history says %d times that it loops, want 2", loops)
	}
}
