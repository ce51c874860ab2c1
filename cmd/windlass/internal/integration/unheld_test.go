package integration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/statemachine"
)

// unheld submits a task that waits, in each way in which a task can wait.
func (c *cluster) unheld() []string {
	c.t.Helper()
	c.Submit(windlass.Submission{ID: "need", Spec: windlass.Spec{Type: "nobody's"}})
	c.Submit(windlass.Submission{ID: "blocked", Spec: windlass.Spec{Needs: []string{"need"}, OnFailure: windlass.FailureSkips}})
	c.Submit(windlass.Submission{ID: "later", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
	c.Submit(windlass.Submission{ID: "of nobody's type", Spec: windlass.Spec{Type: "nobody's"}})
	c.Submit(windlass.Submission{ID: "without a place", Spec: windlass.Spec{Require: map[string]string{"disk": "tin"}}})
	return []string{"blocked", "later", "of nobody's type", "without a place"}
}

// leaveCommand puts a command into a task's slot and leaves it there, as a client does that
// ends before it has carried it out.
func (c *cluster) leaveCommand(id string, m statemachine.Message) windlass.SentCommand {
	c.t.Helper()
	commander, err := coordinator.NewCommander(c.store, "test")
	c.must(err)
	s := command(m)
	sent := commander.Send(c.t.Context(), []coordinator.Sending{{ID: id, Command: s}})[0]
	c.must(sent.Err)
	return windlass.SentCommand{TaskCommand: windlass.TaskCommand{ID: id, Command: s}, Revision: int64(sent.Revision)}
}

// TestUnheld_O06_…: with a node that holds none of the tasks, and without any.
func TestUnheld_O06_AKillOrAPauseOfWhatNobodyHoldsIsCarriedOutAtOnce(t *testing.T) {
	for name, nodes := range map[string]int{"no node is there": 0, "a node is there": 1} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				for range nodes {
					c.join("n", handlers(map[string]run{"": done}))
				}
				ids := c.unheld()
				c.Submit(windlass.Submission{ID: "below", Spec: windlass.Spec{Needs: []string{"blocked"}}})
				c.Advance(time.Second)
				began := time.Now()
				ctx := windlass.WithCaller(t.Context(), "ann")
				c.wantDone(ctx, ids, statemachine.Pause, windlass.StatusPaused)
				c.wantDone(ctx, ids, statemachine.Kill, windlass.StatusKilled)
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
				for _, id := range ids {
					h, err := inspect.New(c.client).History(t.Context(), id)
					c.must(err)
					var events []string
					for _, e := range h.Entries {
						events = append(events, string(e.Event)+" "+e.Detail)
					}
					if got, want := strings.Join(events, "; "), "command pause, by ann; paused ; released nobody worked on it; command kill, by ann; killed "; got != want {
						t.Errorf("the history of %q is %q, want %q", id, got, want)
					}
				}
				// What waits for it does not run because of that.
				c.Advance(10 * time.Second)
				if nodes > 0 {
					c.wantStatus("below", windlass.StatusKilled) // "blocked" skips it
				}
				c.must(c.client.Rerun(t.Context(), windlass.Rerun{}, "later")[0])
				if d, err := c.client.Task(t.Context(), "later"); err != nil || d.Spec.NotBefore.IsZero() {
					t.Errorf("retried: %+v, %v", d.Spec, err)
				}
			})
		})
	}
}

// wantDone sends a command to tasks, which must be carried out when that returns.
func (c *cluster) wantDone(ctx context.Context, ids []string, message statemachine.Message, want windlass.Status) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var commands []windlass.TaskCommand
	for _, id := range ids {
		commands = append(commands, windlass.TaskCommand{ID: id, Command: statemachine.Command{Message: message}})
	}
	sent, errs := c.client.SendTasks(ctx, commands)
	c.must(errors.Join(errs...))
	for i, id := range ids {
		d, err := c.client.Task(ctx, id)
		c.must(err)
		if d.State == nil || windlass.Status(d.State.State) != want || d.Command != nil || !sent[i].Done || d.Node != "" {
			c.t.Errorf("%s: %s: %+v, the state %+v, done %v", message, id, d.TaskInfo, d.State, sent[i].Done)
		}
		awaited, err := c.client.AwaitCommand(ctx, sent[i])
		if err != nil || awaited.ID != id {
			c.t.Errorf("await %s: %s: %v", message, id, err)
		}
	}
}

func TestUnheld_O06_WhatIsPausedWhileItWaitsStaysSoUntilItIsToldToRun(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.Submit(windlass.Submission{ID: "need", Spec: windlass.Spec{NotBefore: time.Now().Add(5 * time.Second)}})
		c.Submit(windlass.Submission{ID: "waits", Spec: windlass.Spec{Needs: []string{"need"}}})
		c.join("n", running(done))
		c.wantDone(t.Context(), []string{"waits"}, statemachine.Pause, windlass.StatusPaused)
		c.WaitFor(10*time.Second, "need", windlass.StatusCompleted)
		c.Advance(10 * time.Second)
		c.wantStatus("waits", windlass.StatusPaused)
		c.sendTask("waits", statemachine.Run)
		c.WaitFor(10*time.Second, "waits", windlass.StatusCompleted)
	})
}

// TestUnheld_O06_…: whatever fails on the way, the command stays for who holds the task next,
// and nothing is done twice.
func TestUnheld_O06_ACommandThatCannotBeCarriedOutStays(t *testing.T) {
	const owner = `on commit below "/test/tasks/waits/owner"`
	for name, plan := range map[string]string{
		"no session":                   "refuse on grant",
		"it is not known who holds it": "lose-request 1s " + owner + " call 1",
		"the claim is lost":            "lose-request 1s " + owner + " call 2",
		"the claim's answer is lost":   "lose-reply 1s " + owner + " call 2",
		"the claim comes late":         "late 3s " + owner + " call 2",
		"the ending is lost":           "lose-request 1s " + owner + " call 3",
		"the ending's answer is lost":  "lose-reply 1s " + owner + " call 3",
		"the ending comes late":        "late 3s " + owner + " call 3",
		"nothing gets through":         "lose-request 1s " + owner,
	} {
		t.Run(name, func(t *testing.T) {
			inVerified(t, func(t *testing.T, c *cluster) {
				c.Submit(windlass.Submission{ID: "need", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Minute)}})
				c.Submit(windlass.Submission{ID: "waits", Spec: windlass.Spec{Needs: []string{"need"}}})
				c.join("n", running(done))
				client := c.clientBehind(plan)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				_, err := client.SendTask(ctx, "waits", statemachine.Command{Message: statemachine.Kill})
				c.must(err)
				c.WaitFor(2*time.Minute, "waits", windlass.StatusKilled)
				if runs := c.Runs("waits"); len(runs) > 0 {
					t.Errorf("it ran: %v", runs)
				}
			})
		})
	}
}

// TestUnheld_O06_…: the holder dies before it has carried out a kill, and no other node may run
// the task.
func TestUnheld_O06_WhoWaitsForAKillCarriesItOutWhenTheHolderHasGone(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", running(func(ctx context.Context, _ *windlass.Claim) error { <-ctx.Done(); return ctx.Err() }))
		c.Submit(windlass.Submission{ID: "a"})
		c.WaitFor(10*time.Second, "a", windlass.StatusRunning)
		n.Freeze()
		sent, err := c.client.SendTask(t.Context(), "a", statemachine.Command{Message: statemachine.Kill})
		c.must(err)
		if sent.Done {
			t.Error("a task that is held was killed by its client")
		}
		n.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if d, err := c.client.AwaitCommand(ctx, sent); err != nil || d.Status != windlass.StatusKilled {
			t.Errorf("%s, %v", d.Status, err)
		}
	})
}

// TestUnheld_O06_…: another command has replaced it in the meantime.
func TestUnheld_O06_ACommandThatWasReplacedIsNotCarriedOut(t *testing.T) {
	inVerified(t, func(t *testing.T, c *cluster) {
		c.Submit(windlass.Submission{ID: "later", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
		client := c.clientOn(&crossing{Broker: c.Connect(), before: "/test/tasks/later/owner", do: func() {
			c.sendTask("later", statemachine.Run)
		}})
		sent, err := client.SendTask(t.Context(), "later", statemachine.Command{Message: statemachine.Kill})
		c.must(err)
		if d, err := c.client.Task(t.Context(), "later"); err != nil || sent.Done || d.Command == nil || d.Command.Message != statemachine.Run {
			t.Errorf("%+v, %v", d, err)
		}
		if _, err := c.store.Get(t.Context(), "/test/tasks/later/owner"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("its owner: %v", err)
		}
	})
}
