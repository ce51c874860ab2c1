package integration_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// chain submits tasks of which each needs the one before and lets others run if it fails, a
// paused one among them, and a job below the last in the tree.
func (c *cluster) chain() {
	c.t.Helper()
	runs := func(needs ...string) windlass.Spec {
		return windlass.Spec{Needs: needs, OnFailure: windlass.FailureRuns}
	}
	need := runs()
	need.Type = "nobody's"
	c.Submit(windlass.Submission{ID: "need", Spec: need})
	c.Submit(windlass.Submission{ID: "b", Spec: runs("need")})
	c.Submit(windlass.Submission{ID: "c", Spec: runs("b", "need")})
	c.Submit(windlass.Submission{ID: "d", Spec: runs("c")})
	c.Submit(windlass.Submission{ID: "apart"})
	c.sendTask("c", statemachine.Pause)
}

// apply carries out a command, and returns the errors by ID.
func (c *cluster) apply(command commands.Command, ids ...string) map[string]error {
	c.t.Helper()
	errs := map[string]error{}
	for _, o := range commands.Apply(c.t.Context(), c.client, command, ids) {
		errs[o.ID] = o.Err
	}
	return errs
}

func deletes(unblock bool) commands.Command {
	return commands.Command{Command: statemachine.Command{Message: commands.Delete}, Unblock: unblock}
}

func TestDelete_M21_WhatLiveTasksWaitForIsRefusedUnlessTheyMayRun(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.chain()
		c.join("n", handlers(map[string]run{"": done}))
		c.WaitFor(time.Minute, "apart", windlass.StatusCompleted)
		for _, ids := range [][]string{{"need"}, {"need", "b"}, {"b", "need", "nobody"}} {
			errs := c.apply(deletes(false), ids...)
			needed, ok := errors.AsType[*commands.NeededError](errs["need"])
			if !ok || !errors.Is(errs["need"], commands.ErrNeeded) || needed.Number == 0 || needed.By[len(needed.By)-1] != "c" {
				t.Errorf("delete %q: %v", ids, errs)
			}
			if len(ids) == 3 && !errors.Is(errs["nobody"], windlass.ErrNotFound) {
				t.Errorf("delete %q: %v", ids, errs)
			}
		}
		c.Advance(time.Minute)
		for id, status := range map[string]windlass.Status{"need": windlass.StatusPending, "b": windlass.StatusBlocked, "c": windlass.StatusPaused, "d": windlass.StatusBlocked} {
			c.wantStatus(id, status)
		}
		if errs := c.apply(deletes(true), "need"); errs["need"] != nil {
			t.Error(errs)
		}
		c.WaitFor(time.Minute, "b", windlass.StatusCompleted)
		// What is deleted together does not count, in whatever order it is named.
		if errs := c.apply(deletes(false), "c", "d"); errs["c"] != nil || errs["d"] != nil {
			t.Error(errs)
		}
		if c.Advance(time.Minute); c.startsOf("c")+c.startsOf("d") != 0 {
			t.Error("what was deleted ran")
		}
	})
}

// A need that has ended, and what waited for it and has ended, are in nobody's way.
func TestDelete_M21_WhatHasEndedDoesNotWait(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.chain()
		kills := commands.Command{Command: statemachine.Command{Message: statemachine.Kill}}
		if errs := c.apply(kills, "d", "c", "b"); errs["b"] != nil || errs["c"] != nil {
			t.Error(errs)
		}
		if errs := c.apply(deletes(false), "need"); errs["need"] != nil {
			t.Error(errs)
		}
	})
}

func TestKill_M21_WithDependentsNothingBelowRuns(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.chain()
		c.job("a_t", func(s *windlass.Submission) {
			s.Spec.Type, s.Spec.Needs, s.Spec.OnFailure = "t", []string{"d"}, windlass.FailureRuns
		})
		c.job("a_t|b_t", func(s *windlass.Submission) { s.Spec.Type = "t" })
		c.join("n", handlers(map[string]run{"": done, "t": done}))
		c.WaitFor(time.Minute, "apart", windlass.StatusCompleted)
		below, err := commands.Dependents(t.Context(), c.client, []string{"need"})
		if want := []string{"a_t", "a_t|b_t", "b", "c", "d"}; err != nil || !slices.Equal(below, want) {
			t.Errorf("below it are %q, %v, want %q", below, err, want)
		}
		kills := commands.Command{Command: statemachine.Command{Message: statemachine.Kill}, Dependents: true}
		results := commands.Apply(t.Context(), c.client, kills, []string{"need"})
		if len(results) != 6 || results[0].ID != "need" {
			t.Errorf("%d results", len(results))
		}
		for _, o := range results {
			if o.Result != view.ResultDone {
				t.Errorf("%+v", o)
			}
			c.wantStatus(o.ID, windlass.StatusKilled)
		}
		if c.Advance(time.Minute); c.startsOf("b")+c.startsOf("c")+c.startsOf("d")+c.startsOf("a_t")+c.startsOf("a_t|b_t") != 0 {
			t.Error("what was killed ran")
		}
	})
}
