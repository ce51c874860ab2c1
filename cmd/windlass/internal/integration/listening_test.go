package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

// startBusy starts a node and a task whose handler looks at its messages and its context only
// a second after it was called.
func (c *cluster) startBusy(name string, then statefulRun) *windlasstest.Node {
	c.t.Helper()
	n := c.join(name, stateful("busy", func(ctx context.Context, claim *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
		<-time.After(time.Second)
		return then(ctx, claim, messages)
	}))
	c.Submit(windlass.Submission{ID: "t", Spec: windlass.Spec{Type: "busy"}})
	c.WaitFor(5*time.Second, "t", windlass.StatusRunning)
	c.Advance(100 * time.Millisecond)
	return n
}

// becomes sends a command, and checks that it is carried out and the status of the task.
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
		if d := c.task("t"); len(d.Errors) != 1 {
			t.Errorf("%+v", d.Errors)
		}
	})
}

func TestStates_M56_ACommandThatTheHandlerHasNotReceivedIsNotLostWhenItsNodeStops(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.startBusy("a", func(context.Context, *windlass.Claim, <-chan statemachine.Command) statemachine.Command {
			return statemachine.Command{Message: statemachine.Release}
		})
		sent := c.sendTask("t", statemachine.Pause)
		c.Advance(100 * time.Millisecond)
		c.must(n.Stop())
		c.join("b", stateful("busy", c.following))
		c.Advance(10 * time.Second)
		d, err := c.client.AwaitCommand(t.Context(), sent)
		if err != nil || d.Status != windlass.StatusPaused {
			t.Errorf("it is %s, %v", d.Status, err)
		}
	})
}

// The command ends the context, and the handler assumes that its node is stopping.
func TestStates_M56_ACommandThatComesBeforeTheHandlerListensIsCarriedOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", also("late", func(ctx context.Context, claim *windlass.Claim) error {
			<-time.After(time.Second)
			return windlass.Message(c.following(ctx, claim, claim.Messages()))
		}))
		c.Submit(windlass.Submission{ID: "t", Spec: windlass.Spec{Type: "late"}})
		c.WaitFor(5*time.Second, "t", windlass.StatusRunning)
		c.Advance(100 * time.Millisecond)
		c.becomes(statemachine.Pause, windlass.StatusPaused)
	})
}

// The handler has received the pause, and takes a while to return it.
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
		c.sendTask("t", statemachine.Pause)
		c.Advance(1500 * time.Millisecond)
		c.becomes(statemachine.Run, windlass.StatusRunning)
	})
}
