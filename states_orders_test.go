package windlass_test

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

func TestStates_M56_OfSeveralCommandsTheLastOneWins(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		var sent []windlass.SentCommand
		for _, m := range []statemachine.Message{statemachine.Kill, statemachine.Sleep, statemachine.Pause} {
			s, err := c.client.SendTask(t.Context(), "task-000", command(m))
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, s)
		}
		var carriedOut atomic.Int32
		for _, name := range []string{"a", "b", "c"} {
			c.join(name, func(cfg *windlass.Config) {
				cfg.Events.TaskCommanded = func(string, string, error) { carriedOut.Add(1) }
			})
		}
		c.eventually(10*time.Second, "it is paused", func() bool { return c.status("task-000") == windlass.StatusPaused })
		if c.startsOf("task-000") != 0 {
			t.Errorf("it ran %d times before it was paused", c.startsOf("task-000"))
		}
		for i, s := range sent {
			d, err := c.client.AwaitCommand(t.Context(), s)
			switch {
			case i == 2 && (err != nil || d.Status != windlass.StatusPaused):
				t.Errorf("the last one: %s, %v", d.Status, err)
			case i < 2 && d.State != nil && d.State.Command == s.Revision:
				t.Errorf("%s was carried out", s.Command.Message)
			}
		}
		if n := carriedOut.Load(); n != 1 {
			t.Errorf("commands were carried out %d times by three nodes", n)
		}
	})
}

// TestStates_M56_ACommandThatComesWhileAnotherIsCarriedOutIsNotDeletedWithIt: the
// handler takes its time to stop for the first one.
func TestStates_M56_ACommandThatComesWhileAnotherIsCarriedOutIsNotDeletedWithIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				err := c.untilStopped(ctx, claim)
				<-time.After(time.Second)
				return err
			})
		})
		for i, m := range []statemachine.Message{statemachine.Run, statemachine.Sleep, statemachine.Kill, statemachine.Release} {
			id := fmt.Sprint("t", i)
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id}); err != nil {
				t.Fatal(err)
			}
			c.eventually(5*time.Second, "it runs", func() bool { return c.status(id) == windlass.StatusRunning })
			c.sleep(time.Millisecond)
			first, err := c.client.SendTask(t.Context(), id, command(statemachine.Pause))
			if err != nil {
				t.Fatal(err)
			}
			c.sleep(500 * time.Millisecond)
			d, err := c.commandTo(id, command(m))
			if err != nil {
				t.Fatal(err)
			}
			want := map[statemachine.Message]windlass.Status{
				statemachine.Run: windlass.StatusRunning, statemachine.Sleep: windlass.StatusSleeping,
				statemachine.Kill: windlass.StatusKilled, statemachine.Release: windlass.StatusRunning,
			}[m]
			c.eventually(10*time.Second, fmt.Sprintf("after pause and %s it is %s; it was %s", m, want, d.Status), func() bool { return c.status(id) == want })
			if d, err := c.client.Task(t.Context(), id); err != nil || d.State != nil && d.State.Command == first.Revision {
				t.Errorf("%s: the first command was carried out, too: %+v, %v", id, d.State, err)
			}
		}
	})
}

// TestStates_M56_ACommandThatWasHandledByTheOwnerBeforeIsNotCarriedOutAgain: the
// node that claims next has heard of the command and not yet that it is gone.
func TestStates_M56_ACommandThatWasHandledByTheOwnerBeforeIsNotCarriedOutAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.submit(1, windlass.Spec{})
		c.eventually(5*time.Second, "it runs", c.allRunning(1))
		var shaky *faulty.Broker
		c.join("b", func(cfg *windlass.Config) {
			shaky = faulty.Wrap(cfg.Broker, faulty.MustParse(""))
			cfg.Broker = shaky
		})
		c.sleep(2 * time.Second)
		// From now on b hears of commands late.
		shaky.Use(faulty.MustParse(`delay-request 20s on batch below "/test/commands/"`))
		if _, err := c.client.SendTask(t.Context(), "task-000", command(statemachine.Sleep)); err != nil {
			t.Fatal(err)
		}
		c.eventually(5*time.Second, "it sleeps", func() bool { return c.status("task-000") == windlass.StatusSleeping })
		if _, err := c.commandTo("task-000", command(statemachine.Run)); err != nil {
			t.Fatal(err)
		}
		if err := a.leave(); err != nil {
			t.Fatal(err)
		}
		c.eventually(10*time.Second, "b runs it", func() bool { return c.runningOn("b") == 1 })
		c.sleep(time.Minute)
		if s := c.status("task-000"); s != windlass.StatusRunning || c.runningOn("b") != 1 || c.startsOf("task-000") != 3 {
			t.Errorf("it is %s after %d runs, of which two were on a: an old command was carried out", s, c.startsOf("task-000"))
		}
	})
}

// TestStates_M56_ACommandThatComesWhileAStateIsOnItsWayWins: what the first command
// asked for has not been stored when the second one replaces it.
func TestStates_M56_ACommandThatComesWhileAStateIsOnItsWayWins(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var slow *faulty.Broker
		c.join("n", func(cfg *windlass.Config) {
			slow = faulty.Wrap(cfg.Broker, faulty.MustParse(""))
			cfg.Broker = slow
		})
		for i, m := range []statemachine.Message{statemachine.Run, statemachine.Sleep, statemachine.Kill} {
			id := fmt.Sprint("t", i)
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id}); err != nil {
				t.Fatal(err)
			}
			c.eventually(5*time.Second, "it runs", func() bool { return c.status(id) == windlass.StatusRunning })
			c.sleep(time.Second) // until its history is written
			slow.Use(faulty.MustParse(`delay-request 2s on commit`))
			first, err := c.client.SendTask(t.Context(), id, command(statemachine.Pause))
			if err != nil {
				t.Fatal(err)
			}
			// The node hears of the second one only when the first is decided.
			c.sleep(100 * time.Millisecond)
			slow.Use(faulty.MustParse("break on batch below \"/test/commands/\"\nrefuse on list below \"/test/commands/\""))
			second, err := c.client.SendTask(t.Context(), id, command(m))
			if err != nil {
				t.Fatal(err)
			}
			c.sleep(3 * time.Second)
			slow.Use(nil)
			if _, err := c.client.AwaitCommand(t.Context(), second); err != nil {
				t.Error(err)
			}
			want := map[statemachine.Message]windlass.Status{
				statemachine.Run: windlass.StatusRunning, statemachine.Sleep: windlass.StatusSleeping, statemachine.Kill: windlass.StatusKilled,
			}[m]
			c.eventually(10*time.Second, fmt.Sprintf("after %s it is %s", m, want), func() bool { return c.status(id) == want })
			if _, err := c.client.AwaitCommand(t.Context(), first); err == nil && m != statemachine.Run {
				if d, err := c.client.Task(t.Context(), id); err != nil || d.State.Command == first.Revision {
					t.Errorf("the first command was carried out: %+v, %v", d.State, err)
				}
			}
		}
	})
}

func TestStates_M55_ErrorHandlersDecideByType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		wake := time.Now().Add(3 * time.Hour)
		fails := windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
			defer c.began(claim)()
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
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: kind, Spec: windlass.Spec{Type: kind}}); err != nil {
				t.Fatal(err)
			}
		}
		for kind, status := range want {
			c.eventually(500*time.Millisecond, fmt.Sprintf("%s is %s", kind, status), func() bool { return c.status(kind) == status })
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
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				defer c.began(claim)()
				if time.Now().Before(back) {
					return errors.New("the database is away")
				}
				return nil
			})
		})
		c.submit(1, windlass.Spec{})
		c.job("a_t")
		c.sleep(80 * time.Minute)
		if got := c.status("a_t"); got != windlass.StatusSleeping {
			t.Errorf("after 80 minutes the job is %s", got)
		}
		c.sleep(160 * time.Minute)
		if got, n := c.status("a_t"), c.startsOf("a_t"); got != windlass.StatusFailed || n != 25 {
			t.Errorf("after four hours the job is %s after %d runs", got, n)
		}
		c.sleep(time.Hour - time.Minute)
		e, err := c.client.Explain(t.Context(), "task-000")
		if err != nil || e.Status != windlass.StatusSleeping || !strings.Contains(e.Why, "error(s) in a row") || !strings.Contains(e.Why, "the database is away") {
			t.Errorf("after five hours: %+v, %v", e, err)
		}
		c.sleep(11 * time.Minute)
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
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: kind, Spec: windlass.Spec{Type: kind}}); err != nil {
				t.Fatal(err)
			}
			c.eventually(5*time.Second, kind+" has failed", func() bool { return c.status(kind) == windlass.StatusFailed })
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
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				defer c.began(claim)()
				return errors.New("no")
			})
		})
		spec := windlass.Spec{Retry: &windlass.Retry{Errors: 20, Min: windlass.Duration(time.Second), Max: windlass.Duration(2 * time.Second)}}
		c.submit(1, spec)
		took := c.eventually(time.Minute, "it has failed", func() bool { return c.status("task-000") == windlass.StatusFailed })
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
		c.eventually(time.Second, "it runs", c.allRunning(1))
		c.sleep(59 * time.Second)
		if !c.allRunning(1)() {
			t.Error("it was stopped before its time")
		}
		c.eventually(5*time.Second, "it sleeps", func() bool { return c.status("task-000") == windlass.StatusSleeping })
		d, err := c.client.Task(t.Context(), "task-000")
		if err != nil || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Error, windlass.ErrTimeout.Error()) || !strings.Contains(d.Errors[0].Error, "1m0s") {
			t.Errorf("%+v, %v", d.Errors, err)
		}
		if causes := c.causesOf("task-000"); len(causes) != 1 || !errors.Is(causes[0], windlass.ErrTimeout) {
			t.Errorf("it was stopped with %v", causes)
		}
		c.eventually(2*time.Minute, "it has failed", func() bool { return c.status("task-000") == windlass.StatusFailed })
	})
}

// TestStates_M56_ACommandThatAListenerDidNotAnswerIsNotLost: it never received it,
// it failed, or it was stopped for something else.
func TestStates_M56_ACommandThatAListenerDidNotAnswerIsNotLost(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		listens := func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				defer c.began(claim)()
				messages := claim.Messages()
				switch claim.ID() {
				case "never-receives":
					<-time.After(3 * time.Second)
					return windlass.Message(statemachine.SleepUntil(time.Now().Add(time.Second)))
				case "fails":
					<-messages
					return errors.New("no")
				case "is-drained":
					<-messages
				}
				<-ctx.Done()
				return ctx.Err()
			})
		}
		a := c.join("a", listens)
		ids := []string{"never-receives", "fails", "is-drained"}
		for _, id := range ids {
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id}); err != nil {
				t.Fatal(err)
			}
			c.eventually(5*time.Second, "it runs", func() bool { return c.status(id) == windlass.StatusRunning })
		}
		c.sleep(time.Millisecond)
		for _, id := range ids {
			if _, err := c.client.SendTask(t.Context(), id, command(statemachine.Pause)); err != nil {
				t.Fatal(err)
			}
		}
		c.sleep(time.Millisecond) // or what b's coming moves is not told any more
		c.join("b", listens)
		c.sleep(time.Second)
		if err := a.leave(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			c.eventually(10*time.Second, id+" is paused", func() bool { return c.status(id) == windlass.StatusPaused })
		}
	})
}
