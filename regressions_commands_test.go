package windlass_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

// TestSendTask_AStoppedHandlerKeepsItsResult: a handler that is killed, paused or
// put to sleep by command may have set a result before it returned.
func TestSendTask_AStoppedHandlerKeepsItsResult(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				defer c.began(claim)()
				<-ctx.Done()
				if err := claim.SetResult("as far as it got"); err != nil {
					t.Error(err)
				}
				return ctx.Err()
			})
		})
		for id, command := range map[string]statemachine.Command{
			"killed": {Message: statemachine.Kill}, "paused": {Message: statemachine.Pause},
			"sleeping": statemachine.SleepUntil(time.Now().Add(time.Hour)),
		} {
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id}); err != nil {
				t.Fatal(err)
			}
			c.eventually(time.Second, id+" runs", func() bool { return c.startsOf(id) == 1 })
			sent, err := c.client.SendTask(t.Context(), id, command)
			if err != nil {
				t.Fatal(err)
			}
			d, err := c.client.AwaitCommand(t.Context(), sent)
			if err != nil || string(d.Status) != id || string(d.Result) != `"as far as it got"` {
				t.Errorf("%s: it is %s with the result %s, %v", id, d.Status, d.Result, err)
			}
		}
	})
}

// TestSendTask_ATaskThatHasEndedIsNotSaidToBeAnother: only a submission can have
// other settings than the task had.
func TestSendTask_ATaskThatHasEndedIsNotSaidToBeAnother(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil })
		})
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "t"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.Wait(t.Context(), "t", windlass.StatusCompleted); err != nil {
			t.Fatal(err)
		}
		_, sendErr := c.client.SendTask(t.Context(), "t", statemachine.Command{Message: statemachine.Kill})
		_, waitErr := c.client.Wait(t.Context(), "t", windlass.StatusPaused)
		for _, err := range []error{sendErr, waitErr} {
			var finished *windlass.FinishedError
			if !errors.As(err, &finished) || finished.State != statemachine.Completed || !strings.HasSuffix(err.Error(), `task "t" is completed already`) {
				t.Errorf("%v", err)
			}
		}
		err := c.client.Submit(t.Context(), windlass.Submission{ID: "t", Spec: windlass.Spec{Priority: 7}})
		if !errors.Is(err, windlass.ErrFinished) || windlass.AlreadySubmitted(err) || !strings.Contains(err.Error(), "other settings") {
			t.Errorf("submitted with another priority: %v", err)
		}
	})
}

// awayOnce is a broker whose next transaction fails once away is set.
type awayOnce struct {
	broker.Broker
	away bool
}

// Commit implements broker.Broker.
func (a *awayOnce) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if !a.away {
		return a.Broker.Commit(ctx, txns...)
	}
	a.away = false
	results := make([]broker.Result, len(txns))
	for i := range results {
		results[i].Err = broker.ErrUnavailable
	}
	return results
}

// TestAwaitCommand_WaitsWhileTheBrokerIsAway: the broker may be away just when the
// outcome is read.
func TestAwaitCommand_WaitsWhileTheBrokerIsAway(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		store := &awayOnce{Broker: c.store}
		client, err := windlass.NewClient(store, "test")
		if err != nil {
			t.Fatal(err)
		}
		c.join("n")
		if err := client.Submit(t.Context(), windlass.Submission{ID: "t"}); err != nil {
			t.Fatal(err)
		}
		sent, err := client.SendTask(t.Context(), "t", statemachine.Command{Message: statemachine.Kill})
		if err != nil {
			t.Fatal(err)
		}
		c.eventually(5*time.Second, "it is killed", func() bool { return c.status("t") == windlass.StatusKilled })
		store.away = true
		if d, err := client.AwaitCommand(t.Context(), sent); err != nil || d.Status != windlass.StatusKilled || store.away {
			t.Errorf("%s, %v", d.Status, err)
		}
	})
}

// forbidding is a broker that refuses to read commands to tasks, or to delete them and
// nothing else, or to write registrations, while it is told to.
type forbidding struct {
	broker.Broker
	reads, deletes, registers atomic.Bool
}

// Get implements broker.Broker.
func (f *forbidding) Get(ctx context.Context, key string) (broker.KV, error) {
	if f.reads.Load() && strings.HasPrefix(key, "/test/commands/") {
		return broker.KV{}, broker.NewError("get", key, broker.ErrPermission, nil)
	}
	return f.Broker.Get(ctx, key)
}

// Commit implements broker.Broker.
func (f *forbidding) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if len(txns) == 1 && len(txns[0].Then) == 1 && (f.deletes.Load() && strings.HasPrefix(txns[0].Then[0].Key, "/test/commands/") ||
		f.registers.Load() && strings.HasPrefix(txns[0].Then[0].Key, "/test/nodes/")) {
		return []broker.Result{{Err: broker.NewError("commit", txns[0].Then[0].Key, broker.ErrPermission, nil)}}
	}
	return f.Broker.Commit(ctx, txns...)
}

// joinForbidding starts a node on a broker that can be told to refuse, and counts
// how often the node reports trouble with it.
func (c *cluster) joinForbidding(refuse *forbidding) (trouble *atomic.Int32) {
	trouble = new(atomic.Int32)
	c.join("n", func(cfg *windlass.Config) {
		refuse.Broker, cfg.Broker = cfg.Broker, refuse
		cfg.Events.BrokerTrouble = func(error) { trouble.Add(1) }
	})
	return trouble
}

func TestRegression_ACommandThatMayNotBeReadIsNotTakenForHandled(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		sent := c.tell("task-000", statemachine.Pause)
		refuse := &forbidding{}
		refuse.reads.Store(true)
		trouble := c.joinForbidding(refuse)
		c.sleep(time.Minute)
		if c.startsOf("task-000") != 0 || trouble.Load() != 1 {
			t.Errorf("%d starts although it is to pause, and %d reports", c.startsOf("task-000"), trouble.Load())
		}
		refuse.reads.Store(false)
		c.eventually(5*time.Second, "it is paused", func() bool { return c.status("task-000") == windlass.StatusPaused })
		if d, err := c.client.AwaitCommand(t.Context(), sent); err != nil || c.startsOf("task-000") != 0 {
			t.Errorf("%s after %d starts, %v", d.Status, c.startsOf("task-000"), err)
		}
	})
}

func TestRegression_ACommandThatMayNotBeReadHoldsNothingUpOnceItIsGone(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		c.tell("task-000", statemachine.Pause)
		refuse := &forbidding{}
		refuse.reads.Store(true)
		c.joinForbidding(refuse)
		c.sleep(10 * time.Second)
		c.deleteKey("/test/commands/task-000")
		c.eventually(5*time.Second, "it runs", c.allRunning(1))
	})
}

func TestRegression_ACommandThatMayNotBeDeletedIsReportedAndDeletedOnceItMay(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		refuse := &forbidding{}
		refuse.deletes.Store(true)
		trouble := c.joinForbidding(refuse)
		c.submit(1, windlass.Spec{})
		c.eventually(5*time.Second, "it runs", c.allRunning(1))
		c.tell("task-000", statemachine.Run)
		c.sleep(time.Minute)
		if trouble.Load() != 1 {
			t.Errorf("it was reported %d times", trouble.Load())
		}
		refuse.deletes.Store(false)
		c.eventually(5*time.Second, "it is deleted once that is permitted", func() bool {
			_, err := c.store.Get(t.Context(), "/test/commands/task-000")
			return errors.Is(err, broker.ErrNotFound)
		})
	})
}

func TestNode_M04_SaysWhatItIsOnceItMay(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		refuse := &forbidding{}
		c.joinForbidding(refuse)
		c.eventually(5*time.Second, "it is there", func() bool { return len(c.nodes()) == 1 })
		refuse.registers.Store(true)
		if err := c.client.Send(t.Context(), "n", windlass.Command{Command: windlass.CommandFreeze}); err != nil {
			t.Fatal(err)
		}
		c.sleep(10 * time.Second)
		if c.nodes()[0].Frozen {
			t.Fatal("what may not be written is written")
		}
		refuse.registers.Store(false)
		c.eventually(5*time.Second, "it says that it is frozen", func() bool { return c.nodes()[0].Frozen })
	})
}
