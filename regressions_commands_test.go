package windlass_test

import (
	"context"
	"errors"
	"strings"
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
