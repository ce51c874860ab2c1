package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

// startBusy starts a node with a task of type "busy", whose handler begins to
// look at its messages and its context a second after it was called, and submits
// one.
func (c *cluster) startBusy(name string, then func(ctx context.Context, claim *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command) *windlasstest.Node {
	c.t.Helper()
	m := c.join(name, func(cfg *windlass.Config) {
		cfg.Handlers["busy"] = windlass.Stateful(func(ctx context.Context, claim *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
			<-time.After(time.Second)
			return then(ctx, claim, messages)
		})
	})
	err := c.client.Submit(c.t.Context(), windlass.Submission{ID: "t", Spec: windlass.Spec{Type: "busy"}})
	if err != nil && !windlass.AlreadySubmitted(err) {
		c.t.Fatal(err)
	}
	c.WaitUntil(5*time.Second, "it runs", func() bool { return c.status("t") == windlass.StatusRunning })
	c.Advance(100 * time.Millisecond)
	return m
}

// becomes checks what becomes of a command, and of the task.
func (c *cluster) becomes(m statemachine.Message, want windlass.Status) {
	c.t.Helper()
	d, err := c.commandTo("t", command(m))
	c.Advance(10 * time.Second)
	if s := c.status("t"); err != nil || s != want {
		c.t.Errorf("%s was said to be carried out, with the task %s (%v); it is %s, want %s", m, d.Status, err, s, want)
	}
}

func TestStates_M56_ACommandThatTheHandlerHasNotReceivedIsNotLostWhenItReturnsAnotherMessage(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.startBusy("n", func(context.Context, *windlass.Claim, <-chan statemachine.Command) statemachine.Command {
			return statemachine.SleepUntil(time.Now().Add(2 * time.Second)) // it was about to
		})
		c.becomes(statemachine.Pause, windlass.StatusPaused)
	})
}

func TestStates_M56_ACommandThatTheHandlerHasNotReceivedIsNotLostWhenItFails(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.startBusy("n", func(context.Context, *windlass.Claim, <-chan statemachine.Command) statemachine.Command {
			return statemachine.Fail("no")
		})
		c.becomes(statemachine.Pause, windlass.StatusPaused)
		if d, err := c.client.Task(t.Context(), "t"); err != nil || len(d.Errors) != 1 {
			t.Errorf("%+v, %v", d.Errors, err)
		}
	})
}

func TestStates_M56_ACommandThatTheHandlerHasNotReceivedIsNotLostWhenItsNodeStops(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.startBusy("a", func(context.Context, *windlass.Claim, <-chan statemachine.Command) statemachine.Command {
			return statemachine.Command{Message: statemachine.Release}
		})
		sent, err := c.client.SendTask(t.Context(), "t", command(statemachine.Pause))
		if err != nil {
			t.Fatal(err)
		}
		c.Advance(100 * time.Millisecond)
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		c.join("b", func(cfg *windlass.Config) { cfg.Handlers["busy"] = windlass.Stateful(c.following) })
		c.Advance(10 * time.Second)
		d, err := c.client.AwaitCommand(t.Context(), sent)
		if err != nil || d.Status != windlass.StatusPaused {
			t.Errorf("it is %s, %v", d.Status, err)
		}
	})
}

// TestStates_M56_ACommandThatComesBeforeTheHandlerListensIsCarriedOut: it ends the
// context, and the handler takes that for its node's stopping.
func TestStates_M56_ACommandThatComesBeforeTheHandlerListensIsCarriedOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers["late"] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				<-time.After(time.Second)
				return windlass.Message(c.following(ctx, claim, claim.Messages()))
			})
		})
		c.Submit(windlass.Submission{ID: "t", Spec: windlass.Spec{Type: "late"}})
		c.WaitUntil(5*time.Second, "it runs", func() bool { return c.status("t") == windlass.StatusRunning })
		c.Advance(100 * time.Millisecond)
		c.becomes(statemachine.Pause, windlass.StatusPaused)
	})
}

// TestStates_M56_RunAfterPauseWinsWhileTheHandlerIsStillPausing: the handler has
// received the first one, and needs a while for it.
func TestStates_M56_RunAfterPauseWinsWhileTheHandlerIsStillPausing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.startBusy("n", func(ctx context.Context, _ *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
			select {
			case m := <-messages:
				<-time.After(time.Second)
				return m
			case <-ctx.Done():
				return statemachine.Command{Message: statemachine.Release}
			}
		})
		c.tell("t", statemachine.Pause)
		c.Advance(1500 * time.Millisecond)
		c.becomes(statemachine.Run, windlass.StatusRunning)
	})
}
