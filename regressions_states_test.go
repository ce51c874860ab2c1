package windlass_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/statemachine"
)

// tell sends a command to a task.
func (c *cluster) tell(id string, m statemachine.Message) windlass.SentCommand {
	c.t.Helper()
	sent, err := c.client.SendTask(c.t.Context(), id, command(m))
	if err != nil {
		c.t.Fatal(err)
	}
	return sent
}

// tellAll sends a command to tasks.
func (c *cluster) tellAll(ids []string, m statemachine.Message) {
	c.t.Helper()
	commands := make([]windlass.TaskCommand, len(ids))
	for i, id := range ids {
		commands[i] = windlass.TaskCommand{ID: id, Command: command(m)}
	}
	if _, errs := c.client.SendTasks(c.t.Context(), commands); errors.Join(errs...) != nil {
		c.t.Fatal(errors.Join(errs...))
	}
}

// deleteKey deletes a key by hand.
func (c *cluster) deleteKey(key string) {
	c.t.Helper()
	if _, err := broker.CommitOne(c.t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Delete(key)}}); err != nil {
		c.t.Fatal(err)
	}
}

func TestRegression_ACommandInThePauseBeforeARestartDoesNotWedgeTheTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var starts atomic.Int32
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				starts.Add(1)
				return windlass.Message(command(statemachine.Run))
			})
		})
		c.submit(1, windlass.Spec{})
		c.sleep(5 * time.Second)
		c.tell("task-000", statemachine.Run)
		c.sleep(time.Second)
		before := starts.Load()
		c.sleep(10 * time.Minute)
		if starts.Load() == before {
			t.Error("it was not started for ten minutes")
		}
	})
}

func TestRegression_APauseAfterAKillThatAListenerStopsForWins(t *testing.T) {
	for _, m := range []statemachine.Message{statemachine.Pause, statemachine.Run} {
		t.Run(string(m), func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				c.join("n", func(cfg *windlass.Config) {
					cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
						defer c.began(claim)()
						claim.Messages()
						<-ctx.Done()
						<-time.After(time.Second)
						return ctx.Err()
					})
				})
				c.submit(1, windlass.Spec{})
				c.eventually(2*time.Second, "runs", func() bool { return c.status("task-000") == windlass.StatusRunning })
				c.sleep(time.Second)
				c.tell("task-000", statemachine.Kill)
				c.sleep(500 * time.Millisecond)
				sent := c.tell("task-000", m)
				c.sleep(700 * time.Millisecond)
				d, err := c.client.AwaitCommand(t.Context(), sent)
				if err != nil || len(d.Errors) > 0 || m == statemachine.Pause && d.Status != windlass.StatusPaused {
					t.Errorf("%s with the errors %v, %v", d.Status, d.Errors, err)
				}
			})
		})
	}
}

func TestRegression_ACommandThatWasReplacedIsNotSaidToBeCarriedOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		a := c.tell("task-000", statemachine.Pause)
		c.tell("task-000", statemachine.Run)
		c.join("n")
		c.eventually(5*time.Second, "runs", func() bool { return c.status("task-000") == windlass.StatusRunning })
		c.sleep(time.Second)
		if d, err := c.client.AwaitCommand(t.Context(), a); err == nil {
			t.Errorf("it was replaced, and the task is %s", d.Status)
		}
	})
}

func TestRegression_ADrainEndsAlthoughKillsAreReplacedOnTheirWay(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var slow *faulty.Broker
		m := c.join("n", func(cfg *windlass.Config) {
			slow = faulty.Wrap(cfg.Broker, faulty.MustParse(""))
			cfg.Broker = slow
		})
		ids := c.submit(120, windlass.Spec{})
		c.eventually(5*time.Second, "runs", c.allRunning(120))
		c.sleep(time.Second)
		slow.Use(faulty.MustParse(`delay-request 1500ms on commit`))
		c.send("n", windlass.CommandDrain, `{"per_second":100000}`)
		c.sleep(3200 * time.Millisecond) // it has said that it drains, and 50 at a time are told to go
		c.tellAll(ids, statemachine.Kill)
		for range 10 {
			c.sleep(100 * time.Millisecond)
			c.tellAll(ids, statemachine.Run)
		}
		slow.Use(nil)
		c.sleep(5 * time.Minute)
		if n := len(m.Tasks()); n > 0 {
			t.Errorf("the drain has not ended: %d tasks are left", n)
		}
	})
}

func TestRegression_TheClaimAfterOneThatAskedForACommandGoesOn(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var slow *faulty.Broker
		c.submit(1, windlass.Spec{})
		c.tell("task-000", statemachine.Kill)
		c.join("n", func(cfg *windlass.Config) {
			slow = faulty.Wrap(cfg.Broker, faulty.MustParse(`delay-request 10s on get below "/test/commands/"`))
			cfg.Broker = slow
		})
		c.sleep(3 * time.Second)
		c.deleteKey("/test/tasks/task-000/owner")
		c.sleep(2 * time.Second)
		c.deleteKey("/test/commands/task-000")
		c.sleep(20 * time.Minute)
		if c.startsOf("task-000") == 0 {
			t.Error("it was not started for twenty minutes")
		}
	})
}

func TestRegression_NoTimerOfARestartWakesAPausedTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var starts atomic.Int32
		h := func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				switch starts.Add(1) {
				case 1:
					return windlass.Message(command(statemachine.Run))
				case 2:
					return windlass.Message(command(statemachine.Pause))
				}
				defer c.began(claim)()
				<-ctx.Done()
				return ctx.Err()
			})
		}
		var shaky *faulty.Broker
		c.submit(1, windlass.Spec{})
		c.tell("task-000", statemachine.Checkpoint)
		c.join("b", h, func(cfg *windlass.Config) {
			shaky = faulty.Wrap(cfg.Broker, faulty.MustParse("delay-request 30ms on list below \"/test/commands/\"\ndelay-request 30ms on get below \"/test/commands/\""))
			cfg.Broker = shaky
		})
		c.sleep(50 * time.Millisecond)
		c.deleteKey("/test/commands/task-000")
		c.sleep(20 * time.Second)
		if told, _ := c.told("task-000"); starts.Load() != 2 || c.status("task-000") != windlass.StatusPaused {
			t.Errorf("%d starts: %s", starts.Load(), told)
		}
	})
}

func TestRegression_ACommandToATaskThatWasToLeaveIsCarriedOutWhenItStays(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n")
		ids := c.submit(120, windlass.Spec{})
		c.eventually(5*time.Second, "runs", c.allRunning(120))
		paused := func() int {
			counts, err := c.client.Count(t.Context(), windlass.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			return counts[windlass.StatusPaused]
		}
		c.tellAll(ids, statemachine.Pause)
		c.eventually(5*time.Second, "all are paused", func() bool { return paused() == len(ids) })
		c.sleep(5 * time.Second)
		c.send("n", windlass.CommandDrain, `{"per_second":10000}`)
		c.sleep(200 * time.Millisecond)
		c.tellAll(ids, statemachine.Run)
		c.sleep(100 * time.Millisecond)
		c.send("n", windlass.CommandUnfreeze, ``)
		c.sleep(40 * time.Second)
		if n := paused(); n > 0 {
			t.Errorf("%d of %d are paused still", n, len(ids))
		}
	})
}

func TestRegression_TheRunOfADeletedTaskLeavesTheCommandOfTheNewOne(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var shaky *faulty.Broker
		c.join("n", func(cfg *windlass.Config) {
			shaky = faulty.Wrap(cfg.Broker, faulty.MustParse(""))
			cfg.Broker = shaky
		})
		c.submit(1, windlass.Spec{})
		c.eventually(5*time.Second, "runs", c.allRunning(1))
		c.sleep(2 * time.Second)
		shaky.Use(faulty.MustParse(`delay-request 1s on batch below "/test/tasks/"`))
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "wake-up-the-batch"}); err != nil {
			t.Fatal(err)
		}
		c.sleep(50 * time.Millisecond)
		if err := c.client.Delete(t.Context(), "task-000"); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "task-000"}); err != nil {
			t.Fatal(err)
		}
		sent := c.tell("task-000", statemachine.Kill)
		c.sleep(time.Minute)
		if d, err := c.client.AwaitCommand(t.Context(), sent); err != nil || d.Status != windlass.StatusKilled {
			t.Errorf("the kill was lost: %s, %v", d.Status, err)
		}
	})
}

func TestRegression_ANodeLeavesAlthoughACommandCannotBeRead(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		c.tell("task-000", statemachine.Pause)
		var shaky *faulty.Broker
		m := c.join("n", func(cfg *windlass.Config) {
			shaky = faulty.Wrap(cfg.Broker, faulty.MustParse(`refuse on get below "/test/commands/"`))
			cfg.Broker = shaky
		})
		c.sleep(5 * time.Second)
		m.stop()
		select {
		case <-m.ended:
		case <-time.After(10 * time.Minute):
			t.Error("it has not left after 10 minutes")
			shaky.Use(nil)
		}
	})
}

func TestRegression_NoHandlerGoesRoundAtFullSpeed(t *testing.T) {
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
				c.sleep(5 * time.Second)
				if n := n.Load(); n > 100 {
					t.Errorf("%d runs in 5 s", n)
				}
			})
		})
	}
}

func TestRegression_ATimeoutIsAnErrorAlsoOfAHandlerThatGivesBack(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var n atomic.Int32
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				n.Add(1)
				<-ctx.Done()
				return windlass.ErrRelease
			})
		})
		c.submit(1, windlass.Spec{Timeout: windlass.Duration(10 * time.Second), Retry: &windlass.Retry{Errors: statemachine.ErrorsMax}})
		c.sleep(30 * time.Minute)
		if d, err := c.client.Task(t.Context(), "task-000"); err != nil || d.Status != windlass.StatusFailed || n.Load() != statemachine.ErrorsMax {
			t.Errorf("%s after %d runs, %v", d.Status, n.Load(), err)
		}
	})
}

func TestRegression_M52_AnErrorWhileSleepingKeepsTheWakeTime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n")
		c.submit(1, windlass.Spec{Retry: &windlass.Retry{Min: windlass.Duration(time.Hour), Max: windlass.Duration(time.Hour)}})
		c.eventually(time.Second, "it runs", c.allRunning(1))
		asleep, err := c.commandTo("task-000", statemachine.SleepUntil(time.Now().Add(time.Minute)))
		if err != nil {
			t.Fatal(err)
		}
		failed, err := c.commandTo("task-000", statemachine.Fail("x"))
		if err != nil || !failed.Until.Equal(*asleep.Until) || len(failed.Errors) != 1 {
			t.Errorf("until %v with %v, and it was %v (%v)", failed.Until, failed.Errors, asleep.Until, err)
		}
	})
}

func TestRegression_M54_ProgressThatCannotBeReadFailsNoTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Broker = faulty.Wrap(cfg.Broker, faulty.MustParse(`refuse on get below "/test/progress/"`))
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				_, err := claim.Progress(ctx)
				return err
			})
		})
		c.submit(1, windlass.Spec{})
		c.sleep(time.Hour)
		if s := c.status("task-000"); s != windlass.StatusRunning {
			t.Errorf("it is %s", s)
		}
	})
}

// TestRegression_ACheckpointWaitsForAnotherNoLongerThanItsContext: the other one
// tries until its own is done, for the broker is away.
func TestRegression_ACheckpointWaitsForAnotherNoLongerThanItsContext(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		took := make(chan time.Duration, 1)
		c.join("n", func(cfg *windlass.Config) {
			f := faulty.Wrap(cfg.Broker, faulty.MustParse(""))
			cfg.Broker = f
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				f.Use(faulty.MustParse(`refuse on commit`))
				var other sync.WaitGroup
				other.Go(func() { _ = claim.Checkpoint(ctx, 1) })
				<-time.After(10 * time.Millisecond)
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := claim.Checkpoint(short, 2); err == nil {
					t.Error("it was saved")
				}
				took <- time.Since(began)
				f.Use(nil)
				other.Wait()
				<-ctx.Done()
				return ctx.Err()
			})
		})
		c.submit(1, windlass.Spec{})
		if d := <-took; d > 200*time.Millisecond {
			t.Errorf("it took %v with 100 ms", d)
		}
	})
}
