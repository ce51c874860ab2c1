package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// A handler that is stopped by a command may set a result before it returns.
func TestSendTask_AStoppedHandlerKeepsItsResult(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			<-ctx.Done()
			if err := claim.SetResult("as far as it got"); err != nil {
				t.Error(err)
			}
			return ctx.Err()
		}))
		for id, command := range map[string]statemachine.Command{
			"killed": {Message: statemachine.Kill}, "paused": {Message: statemachine.Pause},
			"sleeping": statemachine.SleepUntil(time.Now().Add(time.Hour)),
		} {
			c.Submit(windlass.Submission{ID: id})
			c.WaitUntil(time.Second, id+" runs", func() bool { return c.startsOf(id) == 1 })
			sent, err := c.client.SendTask(t.Context(), id, command)
			c.must(err)
			d, err := c.client.AwaitCommand(t.Context(), sent)
			if err != nil || string(d.Status) != id || string(d.Result) != `"as far as it got"` {
				t.Errorf("%s: it is %s with the result %s, %v", id, d.Status, d.Result, err)
			}
		}
	})
}

// Only a submission can have other settings than the task.
func TestSendTask_ATaskThatHasEndedIsNotSaidToBeAnother(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", running(done))
		c.Submit(windlass.Submission{ID: "t"})
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

// The broker is unavailable at the moment when the outcome is read.
func TestAwaitCommand_WaitsWhileTheBrokerIsAway(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		store := &awayOnce{Broker: c.store}
		client := c.clientOn(store)
		c.join("n")
		c.must(client.Submit(t.Context(), windlass.Submission{ID: "t"}))
		sent, err := client.SendTask(t.Context(), "t", statemachine.Command{Message: statemachine.Kill})
		c.must(err)
		c.WaitFor(5*time.Second, "t", windlass.StatusKilled)
		store.away = true
		if d, err := client.AwaitCommand(t.Context(), sent); err != nil || d.Status != windlass.StatusKilled || store.away {
			t.Errorf("%s, %v", d.Status, err)
		}
	})
}

func TestStates_M56_OfSeveralCommandsTheLastOneWins(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		var sent []windlass.SentCommand
		for _, m := range []statemachine.Message{statemachine.Kill, statemachine.Sleep, statemachine.Pause} {
			sent = append(sent, c.leaveCommand("task-000", m))
		}
		var carriedOut atomic.Int32
		for _, name := range []string{"a", "b", "c"} {
			c.join(name, func(cfg *windlass.Config) {
				cfg.Events.TaskCommanded = func(string, string, error) { carriedOut.Add(1) }
			})
		}
		c.WaitFor(10*time.Second, "task-000", windlass.StatusPaused)
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

// The handler takes a second to stop for the first command.
func TestStates_M56_ACommandThatComesWhileAnotherIsCarriedOutIsNotDeletedWithIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			err := untilStopped(ctx, claim)
			<-time.After(time.Second)
			return err
		}))
		for i, m := range []statemachine.Message{statemachine.Run, statemachine.Sleep, statemachine.Kill, statemachine.Release} {
			id := fmt.Sprint("t", i)
			c.Submit(windlass.Submission{ID: id})
			c.WaitFor(5*time.Second, id, windlass.StatusRunning)
			c.Advance(time.Millisecond)
			first := c.sendTask(id, statemachine.Pause)
			c.Advance(500 * time.Millisecond)
			d := c.command(id, command(m))
			want := map[statemachine.Message]windlass.Status{
				statemachine.Run: windlass.StatusRunning, statemachine.Sleep: windlass.StatusSleeping,
				statemachine.Kill: windlass.StatusKilled, statemachine.Release: windlass.StatusRunning,
			}[m]
			c.WaitUntil(10*time.Second, fmt.Sprintf("after pause and %s it is %s; it was %s", m, want, d.Status), func() bool { return c.status(id) == want })
			if d := c.task(id); d.State != nil && d.State.Command == first.Revision {
				t.Errorf("%s: the first command was carried out, too: %+v", id, d.State)
			}
		}
	})
}

// The node that claims next has seen the command, but not yet that it was deleted.
func TestStates_M56_ACommandThatWasHandledByTheOwnerBeforeIsNotCarriedOutAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.submit(1, windlass.Spec{})
		c.WaitUntil(5*time.Second, "it runs", c.allRunning(1))
		n := c.join("b")
		c.Advance(2 * time.Second)
		// From now on b hears of commands late.
		n.Use(`delay-request 20s on batch below "/test/commands/"`)
		c.sendTask("task-000", statemachine.Sleep)
		c.WaitFor(5*time.Second, "task-000", windlass.StatusSleeping)
		c.command("task-000", command(statemachine.Run))
		c.must(a.Stop())
		c.WaitUntil(10*time.Second, "b runs it", func() bool { return c.runningOn("b") == 1 })
		c.Advance(time.Minute)
		if s := c.status("task-000"); s != windlass.StatusRunning || c.runningOn("b") != 1 || c.startsOf("task-000") != 3 {
			t.Errorf("it is %s after %d runs, of which two were on a: an old command was carried out", s, c.startsOf("task-000"))
		}
	})
}

// The second command arrives while the state of the first is being written.
func TestStates_M56_ACommandThatComesWhileAStateIsOnItsWayWins(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		for i, m := range []statemachine.Message{statemachine.Run, statemachine.Sleep, statemachine.Kill} {
			id := fmt.Sprint("t", i)
			c.Submit(windlass.Submission{ID: id})
			c.WaitFor(5*time.Second, id, windlass.StatusRunning)
			c.Advance(time.Second) // until its history is written
			n.Use(`delay-request 2s on commit`)
			first := c.sendTask(id, statemachine.Pause)
			// The node hears of the second one only when the first is decided.
			c.Advance(100 * time.Millisecond)
			n.Use("break on batch below \"/test/commands/\"\nrefuse on list below \"/test/commands/\"")
			second := c.sendTask(id, m)
			c.Advance(3 * time.Second)
			n.Use("")
			_, err := c.client.AwaitCommand(t.Context(), second)
			c.must(err)
			want := map[statemachine.Message]windlass.Status{
				statemachine.Run: windlass.StatusRunning, statemachine.Sleep: windlass.StatusSleeping, statemachine.Kill: windlass.StatusKilled,
			}[m]
			c.WaitUntil(10*time.Second, fmt.Sprintf("after %s it is %s", m, want), func() bool { return c.status(id) == want })
			if _, err := c.client.AwaitCommand(t.Context(), first); err == nil && m != statemachine.Run {
				if d := c.task(id); d.State.Command == first.Revision {
					t.Errorf("the first command was carried out: %+v", d.State)
				}
			}
		}
	})
}

// The handler never receives the command, or fails, or is stopped for another reason.
func TestStates_M56_ACommandThatAListenerDidNotAnswerIsNotLost(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		listens := running(func(ctx context.Context, claim *windlass.Claim) error {
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
			return untilStopped(ctx, claim)
		})
		a := c.join("a", listens)
		ids := []string{"never-receives", "fails", "is-drained"}
		for _, id := range ids {
			c.Submit(windlass.Submission{ID: id})
			c.WaitFor(5*time.Second, id, windlass.StatusRunning)
		}
		c.Advance(time.Millisecond)
		for _, id := range ids {
			c.sendTask(id, statemachine.Pause)
		}
		c.Advance(time.Millisecond) // or what b's coming moves is not told any more
		c.join("b", listens)
		c.Advance(time.Second)
		c.must(a.Stop())
		for _, id := range ids {
			c.WaitFor(10*time.Second, id, windlass.StatusPaused)
		}
	})
}

// sendTask sends a command to a task.
func (c *cluster) sendTask(id string, m statemachine.Message) windlass.SentCommand {
	c.t.Helper()
	sent, err := c.client.SendTask(c.t.Context(), id, command(m))
	c.must(err)
	return sent
}

// sendTasks sends a command to tasks.
func (c *cluster) sendTasks(ids []string, m statemachine.Message) {
	c.t.Helper()
	commands := make([]windlass.TaskCommand, len(ids))
	for i, id := range ids {
		commands[i] = windlass.TaskCommand{ID: id, Command: command(m)}
	}
	_, errs := c.client.SendTasks(c.t.Context(), commands)
	for _, err := range errs {
		if !errors.Is(err, windlass.ErrFinished) { // on a real store another command may have ended it
			c.must(err)
		}
	}
}

func TestTaskCommand_ACommandInThePauseBeforeARestartDoesNotWedgeTheTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var starts atomic.Int32
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			starts.Add(1)
			return windlass.Message(command(statemachine.Run))
		}))
		c.submit(1, windlass.Spec{})
		c.Advance(5 * time.Second)
		c.sendTask("task-000", statemachine.Run)
		c.Advance(time.Second)
		before := starts.Load()
		c.Advance(10 * time.Minute)
		if starts.Load() == before {
			t.Error("it was not started for ten minutes")
		}
	})
}

func TestTaskCommand_APauseAfterAKillThatAListenerStopsForWins(t *testing.T) {
	for _, m := range []statemachine.Message{statemachine.Pause, statemachine.Run} {
		t.Run(string(m), func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
					claim.Messages()
					<-ctx.Done()
					<-time.After(time.Second)
					return ctx.Err()
				}))
				c.submit(1, windlass.Spec{})
				c.WaitFor(2*time.Second, "task-000", windlass.StatusRunning)
				c.Advance(time.Second)
				c.sendTask("task-000", statemachine.Kill)
				c.Advance(500 * time.Millisecond)
				sent := c.sendTask("task-000", m)
				c.Advance(700 * time.Millisecond)
				d, err := c.client.AwaitCommand(t.Context(), sent)
				if err != nil || len(d.Errors) > 0 || m == statemachine.Pause && d.Status != windlass.StatusPaused {
					t.Errorf("%s with the errors %v, %v", d.Status, d.Errors, err)
				}
			})
		})
	}
}

func TestTaskCommand_ACommandThatWasReplacedIsNotSaidToBeCarriedOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		a := c.sendTask("task-000", statemachine.Pause)
		c.sendTask("task-000", statemachine.Run)
		c.join("n")
		c.WaitFor(5*time.Second, "task-000", windlass.StatusRunning)
		c.Advance(time.Second)
		if d, err := c.client.AwaitCommand(t.Context(), a); err == nil {
			t.Errorf("it was replaced, and the task is %s", d.Status)
		}
	})
}

func TestTaskCommand_ADrainEndsAlthoughKillsAreReplacedOnTheirWay(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		ids := c.submit(120, windlass.Spec{})
		c.WaitUntil(5*time.Second, "runs", c.allRunning(120))
		c.Advance(time.Second)
		n.Use(`delay-request 1500ms on commit`)
		c.send("n", operate.Drain, `{"per_second":100000}`)
		c.Advance(3200 * time.Millisecond) // it has said that it drains, and 50 at a time are told to go
		for _, id := range ids {
			c.leaveCommand(id, statemachine.Kill)
		}
		for range 10 {
			c.Advance(100 * time.Millisecond)
			c.sendTasks(ids, statemachine.Run)
		}
		n.Use("")
		c.Advance(5 * time.Minute)
		if left := len(n.Tasks()); left > 0 {
			t.Errorf("the drain has not ended: %d tasks are left", left)
		}
	})
}

func TestTaskCommand_TheClaimAfterOneThatAskedForACommandGoesOn(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		c.leaveCommand("task-000", statemachine.Kill)
		c.join("n", withFaults(`delay-request 10s on get below "/test/commands/"`))
		c.Advance(3 * time.Second)
		c.delete("/test/tasks/task-000/owner")
		c.Advance(2 * time.Second)
		c.delete("/test/commands/task-000")
		c.Advance(20 * time.Minute)
		if c.startsOf("task-000") == 0 {
			t.Error("it was not started for twenty minutes")
		}
	})
}

func TestTaskCommand_NoTimerOfARestartWakesAPausedTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var starts atomic.Int32
		h := running(func(ctx context.Context, claim *windlass.Claim) error {
			switch starts.Add(1) {
			case 1:
				return windlass.Message(command(statemachine.Run))
			case 2:
				return windlass.Message(command(statemachine.Pause))
			}
			return untilStopped(ctx, claim)
		})
		c.submit(1, windlass.Spec{})
		c.sendTask("task-000", statemachine.Checkpoint)
		c.join("b", h, withFaults("delay-request 30ms on list below \"/test/commands/\"\ndelay-request 30ms on get below \"/test/commands/\""))
		c.Advance(50 * time.Millisecond)
		c.delete("/test/commands/task-000")
		c.Advance(20 * time.Second)
		if told, _ := c.historyOf("task-000"); starts.Load() != 2 || c.status("task-000") != windlass.StatusPaused {
			t.Errorf("%d starts: %s", starts.Load(), told)
		}
	})
}

func TestTaskCommand_ACommandToATaskThatWasToLeaveIsCarriedOutWhenItStays(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n")
		ids := c.submit(120, windlass.Spec{})
		c.WaitUntil(5*time.Second, "runs", c.allRunning(120))
		c.sendTasks(ids, statemachine.Pause)
		c.WaitUntil(5*time.Second, "all are paused", func() bool { return c.count(windlass.StatusPaused) == len(ids) })
		c.Advance(5 * time.Second)
		c.send("n", operate.Drain, `{"per_second":10000}`)
		c.Advance(200 * time.Millisecond)
		c.sendTasks(ids, statemachine.Run)
		c.Advance(100 * time.Millisecond)
		c.uncordon("n")
		c.Advance(40 * time.Second)
		if n := c.count(windlass.StatusPaused); n > 0 {
			t.Errorf("%d of %d are paused still", n, len(ids))
		}
	})
}

func TestTaskCommand_TheRunOfADeletedTaskLeavesTheCommandOfTheNewOne(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.submit(1, windlass.Spec{})
		c.WaitUntil(5*time.Second, "runs", c.allRunning(1))
		c.Advance(2 * time.Second)
		n.Use(`delay-request 1s on batch below "/test/tasks/"`)
		c.Submit(windlass.Submission{ID: "wake-up-the-batch"})
		c.Advance(50 * time.Millisecond)
		c.remove("task-000")
		c.Submit(windlass.Submission{ID: "task-000"})
		sent := c.sendTask("task-000", statemachine.Kill)
		c.Advance(time.Minute)
		if d, err := c.client.AwaitCommand(t.Context(), sent); err != nil || d.Status != windlass.StatusKilled {
			t.Errorf("the kill was lost: %s, %v", d.Status, err)
		}
	})
}

func TestTaskCommand_ANodeLeavesAlthoughACommandCannotBeRead(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		c.sendTask("task-000", statemachine.Pause)
		n := c.joinFaulty("n", `refuse on get below "/test/commands/"`)
		c.Advance(5 * time.Second)
		late := time.AfterFunc(10*time.Minute, func() {
			t.Error("it has not left after 10 minutes")
			n.Use("")
		})
		defer late.Stop()
	})
}

func TestTaskCommand_O06_IsShownUntilItIsCarriedOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		for _, command := range []statemachine.Command{{Message: statemachine.Run}, statemachine.SleepUntil(until)} {
			_, err := c.client.SendTask(t.Context(), "task-000", command)
			c.must(err)
			if got := c.task("task-000").Command; got == nil || got.Message != command.Message || (command.Until != nil && !got.Until.Equal(until)) {
				t.Errorf("after %s it is shown with %+v", command.Message, got)
			}
		}
		c.join("n")
		c.WaitFor(time.Minute, "task-000", windlass.StatusSleeping)
		if got := c.task("task-000").Command; got != nil {
			t.Errorf("it was carried out and is shown: %+v", got)
		}
	})
}
