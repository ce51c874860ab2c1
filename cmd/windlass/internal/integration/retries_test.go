package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

func TestStates_M55_ErrorHandlersDecideByType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		wake := time.Now().Add(3 * time.Hour)
		fails := running(func(_ context.Context, claim *windlass.Claim) error {
			return fmt.Errorf("no: %w", &fs.PathError{Op: "open", Path: claim.ID(), Err: fs.ErrNotExist})
		})
		decide := func(c statemachine.Command) windlass.ErrorHandler {
			return func(windlass.Fault) statemachine.Command { return c }
		}
		var faults []windlass.Fault
		c.join("n", fails, func(cfg *windlass.Config) {
			cfg.ErrorHandlers = map[string]windlass.ErrorHandler{
				"sleeps": decide(statemachine.SleepUntil(wake)), "fails": decide(statemachine.Fail("enough")),
				"is-killed": decide(command(statemachine.Kill)), "decides-nonsense": decide(command(statemachine.Pause)),
				"panics": func(windlass.Fault) statemachine.Command { panic("oh no") },
				"runs-again": func(f windlass.Fault) statemachine.Command {
					faults = append(faults, f)
					if f.Failures < 3 {
						return command(statemachine.Run)
					}
					return statemachine.Fail("three times")
				},
			}
		})
		want := map[string]windlass.Status{
			"sleeps": windlass.StatusSleeping, "fails": windlass.StatusFailed, "is-killed": windlass.StatusKilled,
			"decides-nonsense": windlass.StatusSleeping, "panics": windlass.StatusSleeping, "runs-again": windlass.StatusFailed,
			"default": windlass.StatusSleeping,
		}
		for kind := range want {
			c.Submit(windlass.Submission{ID: kind, Spec: windlass.Spec{Type: kind}})
		}
		for kind, status := range want {
			c.WaitFor(500*time.Millisecond, kind, status)
		}
		if d := c.task("sleeps"); !d.Until.Equal(wake) {
			t.Errorf("it sleeps until %v, not %v", d.Until, wake)
		}
		var path *fs.PathError
		if len(faults) != 3 || !errors.As(faults[0].Err, &path) || faults[0].Task.ID() != path.Path {
			t.Errorf("an error handler does not see the error as it was returned, and the task: %+v", faults)
		}
		if len(faults) != 3 || faults[2].Failures != 3 || len(faults[2].Errors) != 3 || faults[2].Spec.Type != "runs-again" {
			t.Errorf("%+v", faults)
		}
	})
}

// By default a task is retried without end, at least every ten minutes. A job fails in the end,
// because others wait for it.
func TestStates_M55_AnOutageOfHoursFailsNoTaskButAJob(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		back := time.Now().Add(5 * time.Hour)
		c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			if time.Now().Before(back) {
				return errors.New("the database is away")
			}
			return nil
		}))
		c.submit(1, windlass.Spec{})
		c.job("a_t")
		c.Advance(80 * time.Minute)
		c.wantStatus("a_t", windlass.StatusSleeping)
		c.Advance(160 * time.Minute)
		if got, n := c.status("a_t"), c.startsOf("a_t"); got != windlass.StatusFailed || n != 25 {
			t.Errorf("after four hours the job is %s after %d runs", got, n)
		}
		c.Advance(time.Hour - time.Minute)
		if e := c.explain("task-000"); e.Status != windlass.StatusSleeping || !strings.Contains(e.Why, "error(s) in a row") || !strings.Contains(e.Why, "the database is away") {
			t.Errorf("after five hours: %+v", e)
		}
		c.Advance(11 * time.Minute)
		c.wantStatus("task-000", windlass.StatusCompleted)
	})
}

// A text that repeats the last error is not stored twice.
func TestStates_M55_WhatAnErrorHandlerSaysWhenItGivesUpIsTheLastError(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		reported := map[string]string{}
		c.join("n", running(failingOnce), func(cfg *windlass.Config) {
			cfg.ErrorHandlers = map[string]windlass.ErrorHandler{
				"explains": func(f windlass.Fault) statemachine.Command {
					return statemachine.Fail("given up: " + f.Errors[0].Error)
				},
				"repeats": func(f windlass.Fault) statemachine.Command { return statemachine.Fail(f.Errors[0].Error) },
			}
			cfg.Events.Errored = func(task string, err error, _ time.Time) {
				c.mu.Lock()
				defer c.mu.Unlock()
				reported[task] = err.Error()
			}
		})
		for kind, want := range map[string][]string{"explains": {"no", "given up: no"}, "repeats": {"no"}} {
			c.Submit(windlass.Submission{ID: kind, Spec: windlass.Spec{Type: kind}})
			d := c.WaitFor(5*time.Second, kind, windlass.StatusFailed)
			var got []string
			for _, e := range d.Errors {
				got = append(got, e.Error)
			}
			c.mu.Lock()
			if last := want[len(want)-1]; !slices.Equal(got, want) || reported[kind] != last || d.State.Failures != 1 {
				t.Errorf("%s: %q, reported as %q, after %d failures", kind, got, reported[kind], d.State.Failures)
			}
			c.mu.Unlock()
		}
	})
}

func TestStates_TheRetryPolicyOfASpecHolds(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(failingOnce))
		c.submit(1, windlass.Spec{Retry: &windlass.Retry{Errors: 20, Min: windlass.Duration(time.Second), Max: windlass.Duration(2 * time.Second)}})
		start := time.Now()
		c.WaitUntil(time.Minute, "the list tells more errors than are kept", func() bool {
			tasks, err := c.client.Tasks(t.Context(), windlass.Filter{})
			return err == nil && len(tasks) == 1 && tasks[0].Failures == 12 && tasks[0].FailuresMax == 20
		})
		d := c.WaitFor(time.Minute, "task-000", windlass.StatusFailed)
		if took := time.Since(start); c.startsOf("task-000") != 20 || len(d.Errors) != statemachine.ErrorsMax || d.State.Failures != 20 || took < 15*time.Second {
			t.Errorf("after %v and %d runs: %d errors, %d failures", took, c.startsOf("task-000"), len(d.Errors), d.State.Failures)
		}
		for field, bad := range map[string]windlass.Spec{
			"retry errors": {Retry: &windlass.Retry{Errors: -2}}, "retry min": {Retry: &windlass.Retry{Min: 2, Max: 1}},
			"retry window": {Retry: &windlass.Retry{Window: -1}}, "timeout": {Timeout: -1},
		} {
			var input *windlass.BadInputError
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: "x", Spec: bad}); !errors.As(err, &input) || input.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

func TestStates_ATimeoutEndsARunAndCountsAsAnError(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n")
		c.submit(1, windlass.Spec{Timeout: windlass.Duration(time.Minute), Retry: &windlass.Retry{Errors: 2}})
		c.WaitUntil(time.Second, "it runs", c.allRunning(1))
		c.Advance(59 * time.Second)
		if !c.allRunning(1)() {
			t.Error("it was stopped before its time")
		}
		c.WaitFor(5*time.Second, "task-000", windlass.StatusSleeping)
		if d := c.task("task-000"); d.Failures != 1 || d.FailuresMax != 2 || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error, windlass.ErrTimeout.Error()) || !strings.Contains(d.Errors[0].Error, "1m0s") {
			t.Errorf("%d of %d: %+v", d.Failures, d.FailuresMax, d.Errors)
		}
		if causes := c.causesOf("task-000"); len(causes) != 1 || !errors.Is(causes[0], windlass.ErrTimeout) {
			t.Errorf("it was stopped with %v", causes)
		}
		c.WaitFor(2*time.Minute, "task-000", windlass.StatusFailed)
	})
}

func TestRetry_NoHandlerGoesRoundAtFullSpeed(t *testing.T) {
	for _, kind := range []string{"errorhandler-run", "sleep-past"} {
		t.Run(kind, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				var n atomic.Int32
				c.join("n", withFaults(`delay-request 1ms on commit`), func(cfg *windlass.Config) {
					cfg.ErrorHandlers = map[string]windlass.ErrorHandler{"x": func(windlass.Fault) statemachine.Command { return command(statemachine.Run) }}
				}, running(func(context.Context, *windlass.Claim) error {
					n.Add(1)
					if kind == "sleep-past" {
						return windlass.Message(statemachine.SleepUntil(time.Now()))
					}
					return errors.New("no")
				}))
				c.submit(1, windlass.Spec{Type: "x"})
				c.Advance(5 * time.Second)
				if n := n.Load(); n > 100 {
					t.Errorf("%d runs in 5 s", n)
				}
			})
		})
	}
}

func TestRetry_ATimeoutIsAnErrorAlsoOfAHandlerThatGivesBack(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var n atomic.Int32
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			n.Add(1)
			<-ctx.Done()
			return windlass.ErrRelease
		}))
		c.submit(1, windlass.Spec{Timeout: windlass.Duration(10 * time.Second), Retry: &windlass.Retry{Errors: statemachine.ErrorsMax}})
		c.Advance(30 * time.Minute)
		if d := c.task("task-000"); d.Status != windlass.StatusFailed || n.Load() != statemachine.ErrorsMax {
			t.Errorf("%s after %d runs", d.Status, n.Load())
		}
	})
}

func TestRetry_M52_AnErrorWhileSleepingKeepsTheWakeTime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n")
		c.submit(1, windlass.Spec{Retry: &windlass.Retry{Min: windlass.Duration(time.Hour), Max: windlass.Duration(time.Hour)}})
		c.WaitUntil(time.Second, "it runs", c.allRunning(1))
		asleep := c.command("task-000", statemachine.SleepUntil(time.Now().Add(time.Minute)))
		failed, err := c.commandTo("task-000", statemachine.Fail("x"))
		if err != nil || !failed.Until.Equal(*asleep.Until) || len(failed.Errors) != 1 {
			t.Errorf("until %v with %v, and it was %v (%v)", failed.Until, failed.Errors, asleep.Until, err)
		}
	})
}

// A stateful handler decides what a timeout means: its message is applied.
func TestStates_ATimeoutOfAHandlerThatReturnsAMessageDoesWhatTheMessageSays(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", stateful(windlass.AnyType, func(ctx context.Context, _ *windlass.Claim, _ <-chan statemachine.Command) statemachine.Command {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), windlass.ErrTimeout) {
				return command(statemachine.Pause)
			}
			return command(statemachine.Release)
		}))
		c.submit(1, windlass.Spec{Timeout: windlass.Duration(time.Minute)})
		if d := c.WaitFor(2*time.Minute, "task-000", windlass.StatusPaused); len(d.Errors) > 0 {
			t.Errorf("%+v", d.Errors)
		}
	})
}
