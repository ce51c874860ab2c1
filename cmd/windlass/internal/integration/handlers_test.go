package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/statemachine"
)

func TestHandler_M30_M31_WhatItReturnsDecidesWhatBecomesOfTheTask(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		attempts := map[string]int{}
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			attempts[claim.ID()]++
			first := attempts[claim.ID()] == 1
			c.mu.Unlock()
			switch claim.ID() {
			case "fails-for-good":
				return windlass.Permanent(errors.New("no such customer"))
			case "fails-always":
				return errors.New("still broken")
			case "fails-once":
				if first {
					return errors.New("try again")
				}
			case "panics":
				if first {
					panic("boom")
				}
			case "released-once":
				if first {
					return windlass.ErrRelease
				}
			}
			return nil
		}))
		for _, id := range []string{"done", "fails-for-good", "fails-once", "fails-always", "panics", "released-once"} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Retry: &windlass.Retry{Errors: 8}}})
		}
		c.WaitFor(time.Second, "panics", windlass.StatusSleeping)
		if d := c.task("panics"); len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error, "boom") || !strings.Contains(d.Errors[0].Error, "handlers_test.go") {
			t.Errorf("a panic was recorded as %+v", d.Errors)
		}
		c.Advance(time.Hour)
		for id, want := range map[string]struct {
			status   windlass.Status
			attempts int
			errors   int
		}{
			"done":           {windlass.StatusCompleted, 1, 0},
			"fails-for-good": {windlass.StatusFailed, 1, 1},
			"fails-once":     {windlass.StatusCompleted, 2, 1},
			"fails-always":   {windlass.StatusFailed, 8, 8},
			"panics":         {windlass.StatusCompleted, 2, 1},
			"released-once":  {windlass.StatusCompleted, 2, 0},
		} {
			if d := c.task(id); d.Status != want.status || attempts[id] != want.attempts || len(d.Errors) != want.errors {
				t.Errorf("%s: %s after %d attempts with %d errors, want %+v", id, d.Status, attempts[id], len(d.Errors), want)
			}
		}
	})
}

func TestHandler_ItsGoroutinesAreLabelledInProfiles(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		profiles := make(chan string)
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			var beside sync.WaitGroup
			defer beside.Wait()
			beside.Go(func() { <-ctx.Done() })
			var profile strings.Builder
			err := pprof.Lookup("goroutine").WriteTo(&profile, 1)
			profiles <- profile.String()
			<-ctx.Done()
			return err
		}))
		for id, taskType := range map[string]string{"nightly": "import", "later": "export"} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: taskType}})
			labels := fmt.Sprintf("# labels: {%q:%q, %q:%q}", "windlass_task", id, "windlass_type", taskType)
			if profile := <-profiles; strings.Count(profile, labels) != 2 {
				t.Errorf("want two goroutines with %s in:\n%s", labels, profile)
			}
		}
	})
}

// Many handlers return nil when their context ends. That must not complete the task.
func TestHandler_M31_NilMeansDoneOnlyAsLongAsTheContextHasNotEnded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		handler := running(func(ctx context.Context, claim *windlass.Claim) error {
			<-ctx.Done()
			if strings.HasPrefix(claim.ID(), "done") {
				return windlass.ErrDone
			}
			return nil
		})
		a := c.join("a", handler)
		ids := c.submit(20, windlass.Spec{})
		for id, timeout := range map[string]time.Duration{"done": 0, "paused": 0, "done-in-no-time": time.Minute, "timeout": time.Minute} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Timeout: windlass.Duration(timeout)}})
		}
		c.Advance(10 * time.Second)
		c.sendTask("paused", statemachine.Pause)
		c.Advance(time.Minute)
		b := c.join("b", handler)
		c.Advance(time.Minute)
		a.Stop()
		c.join("a", handler)
		c.Advance(time.Minute)
		b.Stop()
		c.Advance(time.Minute)
		for _, id := range ids {
			c.wantStatus(id, windlass.StatusRunning)
		}
		for id, want := range map[string]windlass.Status{
			"done": windlass.StatusCompleted, "done-in-no-time": windlass.StatusCompleted, "paused": windlass.StatusPaused,
		} {
			c.wantStatus(id, want)
		}
		if d := c.task("timeout"); len(d.Errors) == 0 || d.Errors[0].Error != "the time for the run is over: after 1m0s" {
			t.Errorf("the run that returned nil when its time was over: %+v", d)
		}
	})
}

func TestHandler_ASleepingTaskIsTakenOverWithItsWakeTimeAndErrors(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var ran []time.Time
		fails := running(func(context.Context, *windlass.Claim) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			ran = append(ran, time.Now())
			return errors.New("no")
		})
		a := c.join("a", fails)
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitUntil(2*time.Minute, "six errors", c.locked(func() bool { return len(ran) == 6 }))
		c.Advance(time.Second)
		d, _ := c.client.Task(t.Context(), "t")
		if got := a.Tasks(); len(got) != 1 || !got[0].Parked {
			t.Errorf("the node holds %+v", got)
		}
		a.Stop()
		b := c.join("b", fails)
		c.WaitUntil(time.Minute, "it ran again", c.locked(func() bool { return len(ran) == 7 }))
		c.Advance(time.Second)
		b.Stop()
		if woke := ran[6]; woke.Before(*d.Until) || woke.Sub(*d.Until) > 5*time.Second {
			t.Errorf("it woke at %v; it was to sleep until %v", woke, d.Until)
		}
		if d, _ := c.client.Task(t.Context(), "t"); len(d.Errors) != 7 {
			t.Errorf("%d errors", len(d.Errors))
		}
	})
}

func TestHandler_SeesItsClaim(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		checked := make(chan struct{})
		c.join("n", also("check", func(ctx context.Context, claim *windlass.Claim) error {
			defer close(checked)
			owner, err := c.store.Get(ctx, "/test/tasks/t/owner")
			if err != nil || int64(owner.Created) != claim.Token() || string(owner.Value) != `{"node":"n"}` {
				t.Errorf("token %d; the owner key is %+v, %v", claim.Token(), owner, err)
			}
			if left := time.Until(claim.Deadline()); left < 5*time.Second || left > 10*time.Second {
				t.Errorf("the deadline is %v away", left)
			}
			if claim.ID() != "t" || claim.Task().ID() != "t" || claim.Spec().Type != "check" || string(claim.Props()) != `{"x":1}` || claim.Node() != "n" {
				t.Errorf("the claim is %+v", claim)
			}
			if err := claim.SetResult(strings.Repeat("x", windlass.ResultBytesMax)); err == nil {
				t.Error("a result over the limit was accepted")
			}
			return nil
		}))
		c.Submit(windlass.Submission{ID: "t", Spec: windlass.Spec{Type: "check"}, Props: json.RawMessage(`{"x":1}`)})
		<-checked
	})
}

func TestHandler_ALargeResultFitsBesideLargePropertiesOrIsRefused(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		props := json.RawMessage(`"` + strings.Repeat("x", windlass.PropsBytesMax-2) + `"`)
		var refused *windlass.BadInputError
		c.join("n", handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			err := claim.SetResult(strings.Repeat("r", windlass.ResultBytesMax-2))
			if !errors.As(err, &refused) {
				return windlass.Permanent(fmt.Errorf("the largest one: %w", err))
			}
			var most int
			if _, err := fmt.Sscanf(refused.Limit, "must be at most %d", &most); err != nil {
				return windlass.Permanent(err)
			}
			return claim.SetResult(strings.Repeat("r", most-2))
		}}))
		c.Submit(windlass.Submission{ID: "t", Props: props, Spec: windlass.Spec{Type: "t"}})
		c.WaitFor(time.Minute, "t", windlass.StatusCompleted)
		c.Submit(windlass.Submission{ID: "u", Props: props, Spec: windlass.Spec{Type: "u"}})
		d := c.detach("u", "u")
		large := json.RawMessage(`"` + strings.Repeat("r", windlass.ResultBytesMax-2) + `"`)
		if err := lease.New(c.client, nil).Complete(t.Context(), "u", d.Token, large); !errors.As(err, &refused) {
			t.Errorf("detached: %v", err)
		}
		c.must(lease.New(c.client, nil).Complete(t.Context(), "u", d.Token, json.RawMessage(`1`)))
	})
}

func TestTokens_RiseFromClaimToClaim(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var tokens []int64
		n := c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			tokens = append(tokens, claim.Token())
			return windlass.ErrRelease
		}))
		c.submit(1, windlass.Spec{})
		c.WaitUntil(time.Minute, "it was claimed often", c.locked(func() bool { return len(tokens) >= 5 }))
		n.Stop()
		if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(tokens) {
			t.Errorf("tokens %v", tokens)
		}
	})
}

func TestNode_M32_ListsWhatItRunsSortedWithTimes(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		slow := make(chan struct{})
		n := c.join("n", running(func(ctx context.Context, _ *windlass.Claim) error {
			<-ctx.Done()
			<-slow
			return ctx.Err()
		}))
		ids := c.submit(5, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", func() bool { return len(n.Tasks()) == 5 })
		c.Advance(time.Second)
		c.send("n", "stop_task", `{"task":"task-002"}`)
		c.Advance(time.Second)
		for i, task := range n.Tasks() {
			if task.ID != ids[i] || task.Started.IsZero() || task.Token == 0 || task.Stopped.IsZero() == (task.ID == "task-002") {
				t.Errorf("task %d is %+v", i, task)
			}
		}
		close(slow)
	})
}

// appTask is an application's own type of task.
type appTask struct{ id, props string }

func (a appTask) ID() string { return a.id }

func TestNewTask_M24_MakesTheApplicationsOwnTypeOrLeavesTheTaskToOthers(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var got []windlass.Task
		corrupt := 0
		c.join("n", func(cfg *windlass.Config) {
			cfg.NewTask = func(id string, props json.RawMessage) windlass.Task {
				var p struct {
					Customer string
					Panic    bool
				}
				if len(props) == 0 {
					return appTask{id, "nobody"}
				}
				if json.Unmarshal(props, &p) != nil || p.Customer == "" && !p.Panic {
					return nil
				}
				if p.Panic {
					panic("bad props")
				}
				return appTask{id, p.Customer}
			}
			cfg.Events.Corrupt = func(string, error) { corrupt++ }
		}, running(func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			got = append(got, claim.Task())
			return nil
		}))
		for id, props := range map[string]string{"a": `{"customer":"acme"}`, "b": "", "ignored": `{}`, "panics": `{"panic":true}`} {
			c.Submit(windlass.Submission{ID: id, Props: json.RawMessage(props)})
		}
		c.Advance(30 * time.Second)
		slices.SortFunc(got, func(a, b windlass.Task) int { return strings.Compare(a.ID(), b.ID()) })
		if len(got) != 2 || got[0] != (appTask{"a", "acme"}) || got[1] != (appTask{"b", "nobody"}) || corrupt == 0 {
			t.Errorf("ran %v; %d reports", got, corrupt)
		}
		for _, id := range []string{"ignored", "panics"} {
			c.wantStatus(id, windlass.StatusPending)
		}
	})
}

func TestNode_LeavesTypesItCannotHandleToOthers(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		a := c.join("a", handlers(map[string]run{"red": untilStopped, "blue": untilStopped}))
		b := c.join("b", handlers(map[string]run{"blue": untilStopped}))
		c.submit(20, windlass.Spec{Type: "red"})
		c.WaitUntil(5*time.Second, "a runs all red ones", func() bool { return c.runningOn("a") == 20 })
		c.Advance(time.Minute)
		a.Stop()
		b.Stop()
		for id, n := range c.starts() {
			if n != 1 {
				t.Errorf("%s was started %d times: it moves to and fro", id, n)
			}
		}
	})
}

func TestNode_M36_NodesOfDifferentNamespacesDoNotMeet(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		here := c.join("n")
		there := c.newNode("n", func(cfg *windlass.Config) { cfg.Namespace = "test2" })
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			if err := there.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		c.submit(3, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", c.allRunning(3))
		c.Advance(time.Minute)
		if len(here.Tasks()) != 3 || len(there.Tasks()) != 0 {
			t.Errorf("here %v, there %v", here.Tasks(), there.Tasks())
		}
		stop()
		running.Wait()
	})
}

func TestFence_IsCalledWithTheHandlersThatIgnoreTheirContext(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		var fenced []string
		var at time.Duration
		var conn broker.Broker
		var cutAt time.Time
		n := c.join("n", func(cfg *windlass.Config) {
			conn = cfg.Broker
			cfg.Fence = func(overdue func() []string) { fenced, at = overdue(), time.Since(cutAt) }
			cfg.Handlers["stubborn"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { <-release; return nil })
		})
		c.submit(2, windlass.Spec{})
		c.Submit(windlass.Submission{ID: "stubborn", Spec: windlass.Spec{Type: "stubborn"}})
		c.WaitUntil(time.Second, "all run", func() bool { return len(n.Tasks()) == 3 })
		cutAt = time.Now()
		conn.Close()
		c.Advance(time.Minute)
		if !slices.Equal(fenced, []string{"stubborn"}) || at > 15*time.Second {
			t.Errorf("fenced %q after %v", fenced, at)
		}
		close(release)
	})
}
