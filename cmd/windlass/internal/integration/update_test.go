package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/statemachine"
)

// given records what the runs of tasks were given, and by which node.
type given struct {
	mu   sync.Mutex
	runs []string
}

func (g *given) add(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs = append(g.runs, text)
}

func (g *given) all() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.runs)
}

// restarts runs tasks until they are stopped.
func (g *given) restarts(ctx context.Context, claim *windlass.Claim) error {
	g.add(string(claim.Props()))
	<-ctx.Done()
	return nil
}

// listens runs tasks that take up new properties.
func (g *given) listens(ctx context.Context, claim *windlass.Claim) error {
	updates := claim.Updates()
	g.add(string(claim.Props()))
	for {
		select {
		case props := <-updates:
			if string(props) != string(claim.Props()) {
				g.add("two versions: " + string(claim.Props()))
			}
			g.add("told " + string(props))
		case <-ctx.Done():
			return nil
		}
	}
}

// setProps returns a change of a task's properties.
func setProps(props string) func(*windlass.Submission) error {
	return func(s *windlass.Submission) error {
		s.Props = json.RawMessage(props)
		return nil
	}
}

// update changes a task and checks the effect.
func (c *cluster) update(id string, change func(*windlass.Submission) error, want windlass.Effect) {
	c.t.Helper()
	if effect, err := c.client.Update(c.t.Context(), id, change); err != nil || effect != want {
		c.t.Errorf("update %s: %q, %v, want %q", id, effect, err, want)
	}
}

// details returns the details in a task's history.
func (c *cluster) details(id string) (text string) {
	history, err := inspect.New(c.client).History(c.t.Context(), id)
	c.must(err)
	for _, e := range history.Entries {
		text += string(e.Event) + ": " + e.Detail + "\n"
	}
	return text
}

func TestUpdate_O05_ATaskRunsAgainWithItsNewPropsOnTheSameNode(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		for _, n := range []string{"n1", "n2", "n3"} {
			c.join(n, running(g.restarts))
		}
		ids := c.submit(9, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(9))
		c.Advance(20 * time.Second) // until nothing moves any more
		holders, before, id := c.holders(), c.starts(), ids[4]
		c.update(id, setProps(`{"n":2}`), windlass.EffectUpdated)
		c.WaitUntil(5*time.Second, "it runs again", func() bool { return c.startsOf(id) == before[id]+1 })
		c.Advance(time.Minute)
		if got := g.all(); got[len(got)-1] != `{"n":2}` || c.moves(before) != 1 {
			t.Errorf("the runs were given %q, %d of them since", got, c.moves(before))
		}
		if now := c.holders(); fmt.Sprint(now) != fmt.Sprint(holders) {
			t.Errorf("the tasks are on %v, were on %v", now, holders)
		}
		if causes := c.causesOf(id); len(causes) == 0 || !errors.Is(causes[len(causes)-1], windlass.ErrUpdated) {
			t.Errorf("it was stopped for %v", causes)
		}
		if text := c.details(id); !strings.Contains(text, "to run again here: the task was changed or restarted") || !strings.Contains(text, "changed or restarted while this node held it") {
			t.Errorf("its history does not say why:\n%s", text)
		}
		if d := c.task(id); string(d.Props) != `{"n":2}` || d.Status != windlass.StatusRunning || time.Since(*d.SubmittedAt) < time.Minute {
			t.Errorf("it is shown as %s with %s", d.Status, d.Props)
		}
	})
}

func TestUpdate_O05_AHandlerThatListensIsToldAndRunsOn(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n", running(g.listens))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`1`)})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		for n := 2; n <= 4; n++ {
			c.update("a", setProps(fmt.Sprint(n)), windlass.EffectUpdated)
			c.Advance(5 * time.Second)
		}
		if want := []string{"1", "told 2", "told 3", "told 4"}; !slices.Equal(g.all(), want) {
			t.Errorf("it was given %q, want %q", g.all(), want)
		}
		c.update("a", func(s *windlass.Submission) error {
			s.Spec.Priority, s.Props = 7, json.RawMessage(`5`)
			return nil
		}, windlass.EffectUpdated)
		c.WaitUntil(5*time.Second, "it runs again", func() bool { return c.startsOf("a") == 2 })
		c.Advance(time.Minute)
		if want := []string{"1", "told 2", "told 3", "told 4", "5"}; !slices.Equal(g.all(), want) {
			t.Errorf("after another priority it was given %q, want %q", g.all(), want)
		}
		if text := c.details("a"); strings.Count(text, "updated: its handler received the new properties") != 3 {
			t.Errorf("its history:\n%s", text)
		}
	})
}

func TestRestart_O05_WhatRunsRunsAgainOnTheSameNodeAndNothingElseChanges(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		for _, n := range []string{"n1", "n2"} {
			c.join(n, running(func(ctx context.Context, claim *windlass.Claim) error {
				if claim.ID() == "listens" {
					return g.listens(ctx, claim)
				}
				return g.restarts(ctx, claim)
			}))
		}
		submission := windlass.Submission{ID: "listens", Props: json.RawMessage(`1`)}
		c.Submit(submission)
		c.submit(4, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(5))
		sent, err := c.client.SendTask(t.Context(), "task-003", statemachine.Command{Message: statemachine.Pause})
		c.must(err)
		_, err = c.client.AwaitCommand(t.Context(), sent)
		c.must(err)
		c.Advance(20 * time.Second) // until nothing moves any more
		holders, before, submitted := c.holders(), c.starts(), c.task("listens").SubmittedAt
		interrupted, err := inspect.New(c.client).Interruptions(t.Context(), "listens", "task-001")
		c.must(err)
		restarted := []string{"listens", "task-001", "task-003", "nobody"}
		for i, err := range c.client.Rerun(t.Context(), windlass.Rerun{Live: true}, restarted...) {
			if (restarted[i] == "nobody") != errors.Is(err, windlass.ErrNotFound) || restarted[i] != "nobody" && err != nil {
				t.Errorf("%s: %v", restarted[i], err)
			}
		}
		c.WaitUntil(5*time.Second, "both run again", func() bool {
			return c.startsOf("listens") == before["listens"]+1 && c.startsOf("task-001") == before["task-001"]+1
		})
		c.Advance(time.Minute)
		if n := c.moves(before); n != 2 {
			t.Errorf("%d runs began, want 2", n)
		}
		if now := c.holders(); fmt.Sprint(now) != fmt.Sprint(holders) {
			t.Errorf("the tasks are on %v, were on %v", now, holders)
		}
		if now, err := inspect.New(c.client).Interruptions(t.Context(), "listens", "task-001"); err != nil || !maps.Equal(now, interrupted) {
			t.Errorf("interruptions: %v, %v, were %v", now, err, interrupted)
		}
		c.wantStatus("task-003", windlass.StatusPaused)
		if at := c.task("listens").SubmittedAt; !at.Equal(*submitted) {
			t.Errorf("it was submitted at %v, is said to be at %v", submitted, at)
		}
		var existed *windlass.ExistsError
		if err := c.client.Submit(t.Context(), submission); !errors.As(err, &existed) || !existed.Same {
			t.Errorf("the same submission again: %v", err)
		}
		// A change of the properties is no restart any more.
		c.update("listens", setProps(`2`), windlass.EffectUpdated)
		submission.Update, submission.Props = true, json.RawMessage(`3`)
		c.Submit(submission)
		c.Advance(time.Minute)
		if got := g.all(); got[len(got)-1] != "told 3" || c.startsOf("listens") != before["listens"]+1 {
			t.Errorf("after its restart the one that listens was given %q", got)
		}
		// It takes a change with it.
		c.must(c.client.Rerun(t.Context(), windlass.Rerun{Live: true, Change: setProps(`4`)}, "listens")[0])
		c.WaitUntil(5*time.Second, "it runs again", func() bool { return c.startsOf("listens") == before["listens"]+2 })
		if d := c.task("listens"); string(d.Props) != "4" {
			t.Errorf("it has the properties %s", d.Props)
		}
		ended, err := c.client.SendTask(t.Context(), "task-001", statemachine.Command{Message: statemachine.Kill})
		c.must(err)
		_, err = c.client.AwaitCommand(t.Context(), ended)
		c.must(err)
		var finished *windlass.FinishedError
		if err := c.client.Rerun(t.Context(), windlass.Rerun{Live: true}, "task-001")[0]; !errors.As(err, &finished) {
			t.Errorf("a restart of one that has ended: %v", err)
		}
		if d := c.task("task-001"); !d.Spec.RestartedAt.IsZero() {
			t.Errorf("it is kept with its restart at %v", d.Spec.RestartedAt)
		}
	})
}

// A handler that was told and then fails or sleeps is run again in the same claim.
func TestUpdate_O05_WhatAHandlerWasToldHoldsForItsNextRuns(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			updates := claim.Updates()
			g.add(string(claim.Props()))
			if len(g.all()) == 1 {
				g.add("told " + string(<-updates))
				return errors.New("it does not like that")
			}
			return windlass.Permanent(errors.New("nor this"))
		}))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`1`)})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		token := c.task("a").Token
		c.update("a", setProps(`2`), windlass.EffectUpdated)
		c.WaitFor(time.Minute, "a", windlass.StatusFailed)
		if want := []string{"1", "told 2", "2"}; !slices.Equal(g.all(), want) {
			t.Errorf("it was given %q, want %q", g.all(), want)
		}
		if d := c.task("a"); string(d.Props) != `2` || d.State.Token != token {
			t.Errorf("it has ended with %s and token %d, want that of its only claim, %d", d.Props, d.State.Token, token)
		}
	})
}

func TestUpdate_O05_WhatSleepsOrIsPausedWakesWithTheNewProps(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n", running(g.restarts))
		for _, id := range []string{"paused", "asleep", "later"} {
			s := windlass.Submission{ID: id, Props: json.RawMessage(`1`)}
			if id == "later" {
				s.Spec.NotBefore = time.Now().Add(time.Minute)
			}
			c.Submit(s)
		}
		c.Advance(time.Second)
		send := func(id string, command statemachine.Command) {
			sent, err := c.client.SendTask(t.Context(), id, command)
			c.must(err)
			_, err = c.client.AwaitCommand(t.Context(), sent)
			c.must(err)
		}
		send("paused", statemachine.Command{Message: statemachine.Pause})
		send("asleep", statemachine.SleepUntil(time.Now().Add(time.Minute)))
		for _, id := range []string{"paused", "asleep", "later"} {
			c.update(id, setProps(`2`), windlass.EffectUpdated)
		}
		c.Advance(30 * time.Second)
		c.wantStatus("paused", windlass.StatusPaused)
		c.wantStatus("asleep", windlass.StatusSleeping)
		send("paused", statemachine.Command{Message: statemachine.Run})
		c.Advance(time.Minute)
		if want := []string{"1", "1", "2", "2", "2"}; !slices.Equal(g.all(), want) {
			t.Errorf("the runs were given %q, want %q", g.all(), want)
		}
	})
}

// Every change is made to what the others have made of the task, and every answer says
// what happened.
func TestUpdate_O05_ManyAtOnceAllCount(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n1", running(g.restarts))
		c.join("n2", running(g.restarts))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`0`)})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for done := 0; done < 5; {
					_, err := c.client.Update(t.Context(), "a", func(s *windlass.Submission) error {
						var n int
						if err := json.Unmarshal(s.Props, &n); err != nil {
							return err
						}
						s.Props = json.RawMessage(fmt.Sprint(n + 1))
						return nil
					})
					if err == nil {
						done++
					} else if !strings.Contains(err.Error(), "conflicting changes") {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		c.Advance(time.Minute)
		if got := g.all(); got[len(got)-1] != "20" || string(c.task("a").Props) != "20" {
			t.Errorf("of 20 changes by one it has %s, and runs with %s", c.task("a").Props, got[len(got)-1])
		}
	})
}

func TestUpdate_O05_WhatChangesNothingStopsNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n", running(g.restarts))
		s := windlass.Submission{ID: "a", Props: json.RawMessage(`{"n": 1}`), Spec: windlass.Spec{Priority: 2}, Update: true}
		c.Submit(s)
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		before := c.everythingOf("a")
		s.Props = json.RawMessage(`{ "n":1 }`)
		if effects, errs := c.client.Enqueue(t.Context(), []windlass.Submission{s}); errs[0] != nil || effects[0] != windlass.EffectUnchanged {
			t.Errorf("the same once more: %q, %v", effects[0], errs[0])
		}
		c.update("a", func(*windlass.Submission) error { return nil }, windlass.EffectUnchanged)
		if now := c.everythingOf("a"); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("it is stored as\n%v\nwas\n%v", now, before)
		}
		if c.Advance(time.Minute); c.startsOf("a") != 1 {
			t.Errorf("%d runs", c.startsOf("a"))
		}
	})
}

func TestUpdate_WhatCannotBeChangedIsLeftAsItIs(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.join("n", also("ends", done), also(windlass.AnyType, untilStopped))
		c.Submit(windlass.Submission{ID: "ended", Spec: windlass.Spec{Type: "ends"}})
		c.Submit(windlass.Submission{ID: "a"})
		c.Submit(windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}})
		c.WaitFor(time.Minute, "ended", windlass.StatusCompleted)
		c.WaitFor(time.Minute, "a_t", windlass.StatusRunning)
		refuses := errors.New("no")
		for name, tt := range map[string]struct {
			id     string
			change func(*windlass.Submission) error
			want   error
		}{
			"no such task": {"none", setProps(`2`), windlass.ErrNotFound},
			"it has ended": {"ended", setProps(`2`), windlass.ErrFinished},
			"a job works":  {"a_t", setProps(`2`), windlass.ErrWorking},
			"the caller":   {"a", func(*windlass.Submission) error { return refuses }, refuses},
		} {
			if effect, err := c.client.Update(ctx, tt.id, tt.change); !errors.Is(err, tt.want) || effect != "" {
				t.Errorf("%s: %q, %v, want %v", name, effect, err, tt.want)
			}
		}
		for name, tt := range map[string]struct {
			id     string
			change func(*windlass.Submission) error
			field  string
		}{
			"no ID":             {"a/b", setProps(`2`), "task ID"},
			"no JSON":           {"a", setProps(`{`), "props"},
			"another kind":      {"a", func(s *windlass.Submission) error { s.Spec.Job = true; return nil }, "job"},
			"it needs itself":   {"a", func(s *windlass.Submission) error { s.Spec.Needs = []string{"a"}; return nil }, "needs"},
			"too high priority": {"a", func(s *windlass.Submission) error { s.Spec.Priority = 1001; return nil }, "priority"},
		} {
			var input *windlass.BadInputError
			if effect, err := c.client.Update(ctx, tt.id, tt.change); !errors.As(err, &input) || input.Field != tt.field || effect != "" {
				t.Errorf("%s: %q, %v, want an error that names %s", name, effect, err, tt.field)
			}
		}
		if c.Advance(time.Minute); c.startsOf("a") != 1 || c.startsOf("a_t") != 1 {
			t.Errorf("%d and %d runs", c.startsOf("a"), c.startsOf("a_t"))
		}
	})
}

// What the application makes of the properties is made again.
func TestUpdate_O05_NewTaskSeesTheNewProps(t *testing.T) {
	for name, listens := range map[string]bool{"told": true, "again": false} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				var g given
				newTask := func(config *windlass.Config) {
					config.NewTask = func(id string, props json.RawMessage) windlass.Task {
						if string(props) == `"not for us"` {
							return nil
						}
						return namedTask{id, string(props)}
					}
				}
				c.join("n", newTask, running(func(ctx context.Context, claim *windlass.Claim) error {
					g.add(claim.Task().(namedTask).props)
					if !listens {
						<-ctx.Done()
						return nil
					}
					for updates := claim.Updates(); ; {
						select {
						case <-updates:
							g.add("told " + claim.Task().(namedTask).props)
						case <-ctx.Done():
							return nil
						}
					}
				}))
				c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`1`)})
				c.WaitFor(time.Minute, "a", windlass.StatusRunning)
				c.update("a", setProps(`2`), windlass.EffectUpdated)
				c.Advance(10 * time.Second)
				want := []string{"1", "2"}
				if listens {
					want[1] = "told 2"
				}
				if !slices.Equal(g.all(), want) {
					t.Errorf("it was given %q, want %q", g.all(), want)
				}
				c.update("a", setProps(`"not for us"`), windlass.EffectUpdated)
				c.Advance(10 * time.Second)
				c.wantStatus("a", windlass.StatusPending)
			})
		})
	}
}

type namedTask struct{ id, props string }

// ID implements windlass.Task.
func (t namedTask) ID() string { return t.id }

// A node that cannot be reached runs its tasks as they were and learns of the changes
// when it is back; a lost answer does not make two changes of one.
func TestUpdate_O05_ReachesANodeThatWasCutOff(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "")
		w.submitted(w.client, "a", 5)
		w.Advance(10 * time.Second)
		n.Partition()
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 2`) // the first reads
		for i := range 5 {
			if effect, err := client.Update(t.Context(), fmt.Sprint("a-", i), setProps(`{"new":true}`)); err != nil || effect != windlass.EffectUpdated {
				t.Errorf("%d: %q, %v", i, effect, err)
			}
		}
		w.Advance(3 * time.Second)
		n.Heal()
		w.Advance(time.Minute)
		for i := range 5 {
			if n := w.startsOf(fmt.Sprint("a-", i)); n != 2 {
				t.Errorf("a-%d: %d starts, want 2", i, n)
			}
		}
	})
}

// What a handler is told in the end is how the task is, whatever became of the reads
// before.
func TestUpdate_O05_ReachesAHandlerThatListensOverABadLine(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		var g given
		c.joinFaulty("n", "seed 3\nlose-reply 1s on commit chance 0.3", running(g.listens))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`0`)})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		for i := range 30 {
			c.update("a", setProps(fmt.Sprint(i+1)), windlass.EffectUpdated)
			c.Advance(time.Duration(i) * 100 * time.Millisecond)
		}
		c.Advance(time.Minute)
		if got := g.all(); got[len(got)-1] != "told 30" || len(got) < 15 {
			t.Errorf("it was given %q", got)
		}
		if n := c.startsOf("a"); n != 1 {
			t.Errorf("%d starts, want 1", n)
		}
	})
}

// The release of a task that is to come back is refused once the task is gone.
func TestUpdate_ATaskThatIsDeletedRightAfterwardsIsGone(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(func(ctx context.Context, _ *windlass.Claim) error {
			<-ctx.Done()
			<-time.After(200 * time.Millisecond)
			return nil
		}))
		ids := c.submit(20, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(20))
		for i, id := range ids {
			c.update(id, setProps(`2`), windlass.EffectUpdated)
			c.Advance(time.Duration(i) * 20 * time.Millisecond)
			c.remove(id)
		}
		c.Advance(time.Minute)
		if left := c.collect("/test/tasks/"); len(left) > 0 {
			t.Errorf("%d keys are left: %v", len(left), left[0].Key)
		}
	})
}

// A command or an error ends the run while the task is changed; the next run in the same
// claim has the new properties.
func TestUpdate_O05_ComesWhileAHandlerIsOnItsWayOut(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var g given
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			g.add(string(claim.Props()))
			<-ctx.Done()
			<-time.After(500 * time.Millisecond)
			return ctx.Err()
		}))
		c.Submit(windlass.Submission{ID: "a", Props: json.RawMessage(`1`)})
		c.WaitFor(time.Minute, "a", windlass.StatusRunning)
		_, err := c.client.SendTask(t.Context(), "a", statemachine.SleepUntil(time.Now().Add(5*time.Second)))
		c.must(err)
		c.Advance(200 * time.Millisecond)
		c.update("a", setProps(`2`), windlass.EffectUpdated)
		c.Advance(20 * time.Second)
		if want := []string{"1", "2"}; !slices.Equal(g.all(), want) {
			t.Errorf("the runs were given %q, want %q", g.all(), want)
		}
	})
}
