package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/statemachine"
)

func TestStates_M55_ErrorHandlersDecideByType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		wake := time.Now().Add(3 * time.Hour)
		fails := windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
			return fmt.Errorf("no: %w", &fs.PathError{Op: "open", Path: claim.ID(), Err: fs.ErrNotExist})
		})
		decide := func(c statemachine.Command) windlass.ErrorHandler {
			return func(windlass.Fault) statemachine.Command { return c }
		}
		var faults []windlass.Fault
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = fails
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
			c.WaitUntil(500*time.Millisecond, fmt.Sprintf("%s is %s", kind, status), func() bool { return c.status(kind) == status })
		}
		if d, err := c.client.Task(t.Context(), "sleeps"); err != nil || !d.Until.Equal(wake) {
			t.Errorf("it sleeps until %v, not %v (%v)", d.Until, wake, err)
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

// TestStates_M55_AnOutageOfHoursFailsNoTaskButAJob: by default a task is run again for as
// long as it takes, at least every ten minutes; for a job of the tree others wait.
func TestStates_M55_AnOutageOfHoursFailsNoTaskButAJob(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
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
		if got := c.status("a_t"); got != windlass.StatusSleeping {
			t.Errorf("after 80 minutes the job is %s", got)
		}
		c.Advance(160 * time.Minute)
		if got, n := c.status("a_t"), c.startsOf("a_t"); got != windlass.StatusFailed || n != 25 {
			t.Errorf("after four hours the job is %s after %d runs", got, n)
		}
		c.Advance(time.Hour - time.Minute)
		e, err := c.client.Explain(t.Context(), "task-000")
		if err != nil || e.Status != windlass.StatusSleeping || !strings.Contains(e.Why, "error(s) in a row") || !strings.Contains(e.Why, "the database is away") {
			t.Errorf("after five hours: %+v, %v", e, err)
		}
		c.Advance(11 * time.Minute)
		if got := c.status("task-000"); got != windlass.StatusCompleted {
			t.Errorf("ten minutes after the database is back the task is %s", got)
		}
	})
}

// TestStates_M55_WhatAnErrorHandlerSaysWhenItGivesUpIsTheLastError: a text that
// repeats the last one is not kept twice.
func TestStates_M55_WhatAnErrorHandlerSaysWhenItGivesUpIsTheLastError(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var mu sync.Mutex
		reported := map[string]string{}
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return errors.New("no") })
			cfg.ErrorHandlers = map[string]windlass.ErrorHandler{
				"explains": func(f windlass.Fault) statemachine.Command {
					return statemachine.Fail("given up: " + f.Errors[0].Error)
				},
				"repeats": func(f windlass.Fault) statemachine.Command { return statemachine.Fail(f.Errors[0].Error) },
			}
			cfg.Events.Errored = func(task string, err error, _ time.Time) {
				mu.Lock()
				defer mu.Unlock()
				reported[task] = err.Error()
			}
		})
		for kind, want := range map[string][]string{"explains": {"no", "given up: no"}, "repeats": {"no"}} {
			c.Submit(windlass.Submission{ID: kind, Spec: windlass.Spec{Type: kind}})
			c.WaitUntil(5*time.Second, kind+" has failed", func() bool { return c.status(kind) == windlass.StatusFailed })
			d, err := c.client.Task(t.Context(), kind)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range d.Errors {
				got = append(got, e.Error)
			}
			mu.Lock()
			if last := want[len(want)-1]; !slices.Equal(got, want) || reported[kind] != last || d.State.Failures != 1 {
				t.Errorf("%s: %q, reported as %q, after %d failures", kind, got, reported[kind], d.State.Failures)
			}
			mu.Unlock()
		}
	})
}

func TestStates_TheRetryPolicyOfASpecHolds(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			return errors.New("no")
		}))
		spec := windlass.Spec{Retry: &windlass.Retry{Errors: 20, Min: windlass.Duration(time.Second), Max: windlass.Duration(2 * time.Second)}}
		c.submit(1, spec)
		took := c.WaitUntil(time.Minute, "it has failed", func() bool { return c.status("task-000") == windlass.StatusFailed })
		d, err := c.client.Task(t.Context(), "task-000")
		if err != nil || c.startsOf("task-000") != 20 || len(d.Errors) != statemachine.ErrorsMax || d.State.Failures != 20 || took < 15*time.Second {
			t.Errorf("after %v and %d runs: %d errors, %d failures, %v", took, c.startsOf("task-000"), len(d.Errors), d.State.Failures, err)
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
		c.WaitUntil(5*time.Second, "it sleeps", func() bool { return c.status("task-000") == windlass.StatusSleeping })
		d, err := c.client.Task(t.Context(), "task-000")
		if err != nil || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error, windlass.ErrTimeout.Error()) || !strings.Contains(d.Errors[0].Error, "1m0s") {
			t.Errorf("%+v, %v", d.Errors, err)
		}
		if causes := c.causesOf("task-000"); len(causes) != 1 || !errors.Is(causes[0], windlass.ErrTimeout) {
			t.Errorf("it was stopped with %v", causes)
		}
		c.WaitUntil(2*time.Minute, "it has failed", func() bool { return c.status("task-000") == windlass.StatusFailed })
	})
}

func TestRetry_NoHandlerGoesRoundAtFullSpeed(t *testing.T) {
	for _, kind := range []string{"errorhandler-run", "sleep-past"} {
		t.Run(kind, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				var n atomic.Int32
				c.join("n", func(cfg *windlass.Config) {
					cfg.Broker = faulty.Wrap(cfg.Broker, faulty.MustParse(`delay-request 1ms on commit`))
					cfg.ErrorHandlers = map[string]windlass.ErrorHandler{"x": func(windlass.Fault) statemachine.Command { return command(statemachine.Run) }}
					cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
						n.Add(1)
						if kind == "sleep-past" {
							return windlass.Message(statemachine.SleepUntil(time.Now()))
						}
						return errors.New("no")
					})
				})
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
		if d, err := c.client.Task(t.Context(), "task-000"); err != nil || d.Status != windlass.StatusFailed || n.Load() != statemachine.ErrorsMax {
			t.Errorf("%s after %d runs, %v", d.Status, n.Load(), err)
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

// TestStates_ATimeoutOfAHandlerThatReturnsAMessageDoesWhatTheMessageSays shows what
// a timeout means to a stateful handler: it is asked, and its answer stands.
func TestStates_ATimeoutOfAHandlerThatReturnsAMessageDoesWhatTheMessageSays(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.Stateful(func(ctx context.Context, claim *windlass.Claim, _ <-chan statemachine.Command) statemachine.Command {
				<-ctx.Done()
				if errors.Is(context.Cause(ctx), windlass.ErrTimeout) {
					return command(statemachine.Pause)
				}
				return command(statemachine.Release)
			})
		})
		c.submit(1, windlass.Spec{Timeout: windlass.Duration(time.Minute)})
		c.WaitUntil(2*time.Minute, "it is paused", func() bool { return c.status("task-000") == windlass.StatusPaused })
		if d, err := c.client.Task(t.Context(), "task-000"); err != nil || len(d.Errors) > 0 {
			t.Errorf("%+v, %v", d.Errors, err)
		}
	})
}
