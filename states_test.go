package windlass_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

// commandTo sends a command and waits until it was carried out.
func (c *cluster) commandTo(id string, command statemachine.Command) (windlass.TaskDetail, error) {
	c.t.Helper()
	sent, err := c.client.SendTask(c.t.Context(), id, command)
	if err != nil {
		return windlass.TaskDetail{}, err
	}
	ctx, cancel := context.WithTimeoutCause(c.t.Context(), time.Minute, errors.New("nobody carries it out"))
	defer cancel()
	defer c.settle() // who sent it may read that it was carried out before the node hears so
	return c.client.AwaitCommand(ctx, sent)
}

func (c *cluster) put(key, value string) {
	c.t.Helper()
	if _, err := broker.CommitOne(c.t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(key, []byte(value))}}); err != nil {
		c.t.Fatal(err)
	}
}

// stored is the value of a key, empty if there is none, and its revision.
func (c *cluster) stored(key string) (string, broker.Revision) {
	c.t.Helper()
	kv, err := c.store.Get(c.t.Context(), key)
	if errors.Is(err, broker.ErrNotFound) {
		return "", 0
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return string(kv.Value), kv.Modified
}

// command is a message with what it needs.
func command(m statemachine.Message) statemachine.Command {
	switch m {
	case statemachine.Sleep:
		return statemachine.SleepUntil(time.Now().Add(time.Hour))
	case statemachine.Error:
		return statemachine.Fail("by command")
	}
	return statemachine.Command{Message: m}
}

// obeying is a stateful handler that returns what it is told.
func (c *cluster) obeying(ctx context.Context, claim *windlass.Claim, messages <-chan statemachine.Command) statemachine.Command {
	defer c.began(claim)()
	for {
		select {
		case m := <-messages:
			if m.Message != statemachine.Run && m.Message != statemachine.Checkpoint {
				return m
			}
		case <-ctx.Done():
			return statemachine.Command{Message: statemachine.Release}
		}
	}
}

// TestStates_M50_M51_EveryCommandInEveryState brings a task into a state, by
// commands, and sends it each message; for handlers of both kinds.
func TestStates_M50_M51_EveryCommandInEveryState(t *testing.T) {
	into := map[statemachine.State]statemachine.Message{statemachine.Sleeping: statemachine.Sleep, statemachine.Paused: statemachine.Pause}
	becomes := map[statemachine.State]windlass.Status{
		statemachine.Runnable: windlass.StatusRunning, statemachine.Fault: windlass.StatusSleeping, // which is what the error handler decides
	}
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", func(cfg *windlass.Config) { cfg.Handlers["stateful"] = windlass.Stateful(c.obeying) })
		for _, kind := range []string{"plain", "stateful"} {
			for _, state := range []statemachine.State{statemachine.Runnable, statemachine.Sleeping, statemachine.Paused} {
				for _, m := range statemachine.Messages {
					id := fmt.Sprintf("%s-%s-%s", kind, state, m)
					if err := c.client.Submit(t.Context(), windlass.Submission{ID: id, Spec: windlass.Spec{Type: kind}}); err != nil {
						t.Fatal(err)
					}
					c.eventually(5*time.Second, id+" runs", func() bool { return c.status(id) == windlass.StatusRunning })
					c.sleep(time.Millisecond)
					if state != statemachine.Runnable {
						if _, err := c.commandTo(id, command(into[state])); err != nil {
							t.Fatalf("%s: %v", id, err)
						}
					}
					before, err := c.client.Task(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					d, err := c.commandTo(id, command(m))
					next, refused := statemachine.Next(state, m)
					if refused != nil {
						if !errors.Is(err, windlass.ErrDiscarded) || c.status(id) != before.Status {
							t.Errorf("%s: %s, %v", id, c.status(id), err)
						}
						continue
					}
					want := windlass.Status(next)
					if s, ok := becomes[next]; ok {
						want = s
					}
					c.eventually(5*time.Second, fmt.Sprintf("%s is %s; it is %s, %v", id, want, d.Status, err), func() bool { return c.status(id) == want })
					if keeps := state == statemachine.Sleeping && (m == statemachine.Checkpoint || m == statemachine.Release || m == statemachine.Error); keeps && !d.Until.Equal(*before.Until) {
						t.Errorf("%s: it slept until %v and does until %v", id, before.Until, d.Until)
					}
					if next == statemachine.Fault && (len(d.Errors) != 1 || d.Errors[0].Error != "by command") {
						t.Errorf("%s: %+v", id, d.Errors)
					}
					if value, _ := c.stored("/test/commands/" + id); value != "" {
						t.Errorf("%s: the command is still there: %s", id, value)
					}
					if next.Terminal() {
						var finished *windlass.FinishedError
						if _, err := c.client.SendTask(t.Context(), id, command(m)); !errors.As(err, &finished) || finished.State != next {
							t.Errorf("%s: another command: %v", id, err)
						}
					}
				}
			}
		}
		n.leave()
	})
}

func TestStates_M52_AnInvalidCommandIsDiscardedAndWedgesNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		discarded := map[string]int{}
		c.join("n", func(cfg *windlass.Config) {
			cfg.Events.TaskCommanded = func(task, _ string, err error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if err != nil {
					discarded[task]++
				}
			}
		})
		c.submit(3, windlass.Spec{})
		c.eventually(5*time.Second, "they run", c.allRunning(3))
		if _, err := c.commandTo("task-001", command(statemachine.Pause)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.commandTo("task-002", command(statemachine.Sleep)); err != nil {
			t.Fatal(err)
		}
		for i, status := range []windlass.Status{windlass.StatusRunning, windlass.StatusPaused, windlass.StatusSleeping} {
			id := fmt.Sprintf("task-%03d", i)
			for n, bad := range []string{`{"message":"sleep"}`, `{"message":"error"}`, `{`, `{"message":"dance"}`, "", "waltz"} {
				c.put("/test/commands/"+id, bad)
				c.eventually(5*time.Second, "it is gone", func() bool { value, revision := c.stored("/test/commands/" + id); return value == "" && revision == 0 })
				c.mu.Lock()
				if discarded[id] != n+1 {
					t.Errorf("%s %q: %d were discarded, want %d", id, bad, discarded[id], n+1)
				}
				c.mu.Unlock()
			}
			if s := c.status(id); s != status {
				t.Errorf("%s is %s", id, s)
			}
			if d, err := c.commandTo(id, command(statemachine.Kill)); err != nil || d.Status != windlass.StatusKilled {
				t.Errorf("%s: %s, %v", id, d.Status, err)
			}
		}
		for _, bad := range []statemachine.Command{{Message: "dance"}, {Message: statemachine.Sleep}, {Message: statemachine.Error}, {}} {
			var input *windlass.BadInputError
			if _, err := c.client.SendTask(t.Context(), "task-000", bad); !errors.As(err, &input) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if _, err := c.client.SendTask(t.Context(), "nobody", command(statemachine.Run)); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("a task that is not there: %v", err)
		}
	})
}

// TestStates_M53_AStateIsStoredBeforeItTakesEffectAndOnlyIfItChanged looks at the
// store whenever something takes effect.
func TestStates_M53_AStateIsStoredBeforeItTakesEffectAndOnlyIfItChanged(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var seen []string
		c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				value, _ := c.stored("/test/state/" + claim.ID())
				record, err := statemachine.Parse([]byte(value))
				c.mu.Lock()
				seen = append(seen, fmt.Sprint(record.State, err))
				c.mu.Unlock()
				return c.untilStopped(ctx, claim)
			})
		})
		c.submit(1, windlass.Spec{})
		c.eventually(5*time.Second, "it runs", c.allRunning(1))
		for _, m := range []statemachine.Message{statemachine.Pause, statemachine.Run, statemachine.Sleep, statemachine.Run} {
			if _, err := c.commandTo("task-000", command(m)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.commandTo("task-000", statemachine.SleepUntil(time.Now().Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		c.eventually(2*time.Minute, "it runs", c.allRunning(1))
		if got := strings.Join(seen, " "); got != "runnable<nil> runnable<nil> runnable<nil> runnable<nil>" {
			t.Errorf("handlers started in the states %s", got)
		}
		_, before := c.stored("/test/state/task-000")
		for _, m := range []statemachine.Message{statemachine.Run, statemachine.Checkpoint} {
			if _, err := c.commandTo("task-000", command(m)); err != nil {
				t.Fatal(err)
			}
		}
		if _, after := c.stored("/test/state/task-000"); after != before {
			t.Errorf("a state that did not change was stored")
		}
		if _, err := c.commandTo("task-000", command(statemachine.Pause)); err != nil {
			t.Fatal(err)
		}
		_, before = c.stored("/test/state/task-000")
		if _, err := c.commandTo("task-000", command(statemachine.Pause)); err != nil {
			t.Fatal(err)
		}
		if _, after := c.stored("/test/state/task-000"); after != before {
			t.Errorf("paused was stored when it was paused")
		}
	})
}
