package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

// job submits a job of the tree, by its path with bars.
func (c *cluster) job(id string, change ...func(*windlass.Submission)) {
	c.t.Helper()
	s := windlass.Submission{ID: id, Spec: windlass.Spec{Type: id[strings.LastIndex(id, "_")+1:], Job: true}}
	for _, f := range change {
		f(&s)
	}
	if err := c.client.Submit(c.t.Context(), s); err != nil {
		c.t.Fatalf("submit %s: %v", id, err)
	}
}

// failing is a handler that fails for good.
func failing(context.Context, *windlass.Claim) error { return windlass.Permanent(errors.New("broken")) }

// done is a handler that completes its task at once.
func done(context.Context, *windlass.Claim) error { return nil }

func handlers(byType map[string]func(context.Context, *windlass.Claim) error) func(*windlass.Config) {
	return func(config *windlass.Config) {
		config.Handlers = map[string]windlass.NewHandler{}
		for name, run := range byType {
			config.Handlers[name] = windlass.HandlerFunc(run)
		}
	}
}

func (c *cluster) hasStatus(id string, want windlass.Status) func() bool {
	return func() bool {
		d, err := c.client.Task(c.t.Context(), id)
		return err == nil && d.Status == want
	}
}

func TestJobs_Z06_AnAncestorBlocksAtAnyDepthAndOneThatWasNeverQueuedDoesNot(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ids := []string{"requestFile_alpha", "requestFile_alpha|downloadFile_alpha", "requestFile_alpha|downloadFile_alpha|processFile_alpha"}
		for _, id := range ids {
			c.job(id)
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "never_alpha|child_alpha", Spec: windlass.Spec{Type: "alpha"}}); err != nil {
			t.Fatal(err)
		}
		var order []string
		proceed := make(chan struct{})
		c.join("n1", handlers(map[string]func(context.Context, *windlass.Claim) error{"alpha": func(ctx context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			order = append(order, claim.ID())
			c.mu.Unlock()
			if claim.ID() != "never_alpha|child_alpha" {
				<-proceed
			}
			return nil
		}}))
		c.eventually(5*time.Second, "the child of an ancestor that was never queued runs", c.hasStatus("never_alpha|child_alpha", windlass.StatusCompleted))
		for i, id := range ids {
			c.eventually(5*time.Second, id+" runs", c.hasStatus(id, windlass.StatusRunning))
			for _, below := range ids[i+1:] {
				if got := c.status(below); got != windlass.StatusBlocked {
					t.Errorf("while %s runs, %s is %s", id, below, got)
				}
			}
			proceed <- struct{}{}
		}
		c.eventually(5*time.Second, "the last one completes", c.hasStatus(ids[2], windlass.StatusCompleted))
		order = slices.DeleteFunc(order, func(id string) bool { return id == "never_alpha|child_alpha" })
		if !slices.Equal(order, ids) {
			t.Errorf("they ran in the order %q", order)
		}
	})
}

func TestJobs_Z11_AFailedJobBlocksOrSkipsItsDescendantsOrLetsThemRun(t *testing.T) {
	for policy, want := range map[windlass.OnFailure]windlass.Status{
		"": windlass.StatusBlocked, windlass.FailureBlocks: windlass.StatusBlocked,
		windlass.FailureSkips: windlass.StatusKilled, windlass.FailureRuns: windlass.StatusCompleted,
	} {
		t.Run(string(policy), func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				root, mid, leaf, other := "a_fail", "a_fail|b_ok", "a_fail|b_ok|c_ok", "needs-a"
				c.job(root, func(s *windlass.Submission) { s.Spec.OnFailure = policy })
				c.job(mid)
				c.job(leaf)
				if err := c.client.Submit(t.Context(), windlass.Submission{ID: other, Spec: windlass.Spec{Type: "ok", Needs: []string{root}}}); err != nil {
					t.Fatal(err)
				}
				c.join("n1", handlers(map[string]func(context.Context, *windlass.Claim) error{"fail": failing, "ok": done}))
				c.eventually(5*time.Second, "the first one fails", c.hasStatus(root, windlass.StatusFailed))
				c.sleep(10 * time.Second)
				for _, id := range []string{mid, leaf, other} {
					d, err := c.client.Task(t.Context(), id)
					if err != nil || d.Status != want {
						t.Fatalf("%s is %s (%v), want %s", id, d.Status, err, want)
					}
					switch want {
					case windlass.StatusBlocked:
						if !slices.Contains(d.FailedNeeds, root) {
							t.Errorf("%s does not say that it waits for one that failed: %+v", id, d.TaskInfo)
						}
						if e, err := c.client.Explain(t.Context(), id); err != nil || !strings.Contains(e.Why, "failed or was killed") {
							t.Errorf("%s: %q, %v", id, e.Why, err)
						}
					case windlass.StatusKilled:
						if n := len(d.Errors); n == 0 || !strings.Contains(d.Errors[n-1].Error, root) {
							t.Errorf("%s does not say why it was skipped: %v", id, d.Errors)
						}
					}
				}
			})
		})
	}
}

func TestJobs_Z11_WhatIsBlockedByAFailureRunsOnceThatIsRunAgainOrForgotten(t *testing.T) {
	for _, forget := range []bool{false, true} {
		inEach(t, func(t *testing.T, c *cluster) {
			c.job("a_once")
			c.job("a_once|b_ok")
			failed := false
			c.join("n1", handlers(map[string]func(context.Context, *windlass.Claim) error{"ok": done, "once": func(ctx context.Context, claim *windlass.Claim) error {
				if !failed {
					failed = true
					return failing(ctx, claim)
				}
				return nil
			}}))
			c.eventually(5*time.Second, "it fails", c.hasStatus("a_once", windlass.StatusFailed))
			if got := c.status("a_once|b_ok"); got != windlass.StatusBlocked {
				t.Fatalf("the child is %s", got)
			}
			if forget {
				c.sleep(time.Second)
				if p, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Millisecond, Unblock: true}, windlass.Filter{}, false); err != nil || len(p.IDs) != 1 {
					t.Fatalf("prune: %v, %v", p, err)
				}
			} else {
				c.job("a_once", func(s *windlass.Submission) { s.Rerun = true })
			}
			c.eventually(5*time.Second, "the child completes", c.hasStatus("a_once|b_ok", windlass.StatusCompleted))
		})
	}
}

func TestJobs_Z10_APendingJobIsUpdatedAWorkingOneRefusedOrRunAgainAfterwards(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		data := func(text string) func(*windlass.Submission) {
			return func(s *windlass.Submission) { s.Props = json.RawMessage(text); s.Update = true; s.Rerun = true }
		}
		ctx := t.Context()
		c.job("a_t", data(`1`))
		c.job("a_t", data(`2`))
		c.job("a_t|b_t", data(`0`))
		var seen []string
		proceed := make(chan error)
		c.join("n1", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(ctx context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			seen = append(seen, claim.ID()+"="+string(claim.Props()))
			c.mu.Unlock()
			return <-proceed
		}}))
		c.eventually(5*time.Second, "it runs", c.hasStatus("a_t", windlass.StatusRunning))
		again := windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Props: json.RawMessage(`3`), Update: true}
		if err := c.client.Submit(ctx, again); !errors.Is(err, windlass.ErrWorking) {
			t.Fatalf("queueing what is worked on: %v", err)
		}
		again.Requeue = true
		for _, text := range []string{`3`, `4`} { // the later one takes the place of the first
			again.Props = json.RawMessage(text)
			if effects, errs := c.client.Enqueue(ctx, []windlass.Submission{again}); errs[0] != nil || effects[0] != windlass.EffectRequeued {
				t.Fatalf("requeue after: %v, %v", effects, errs)
			}
		}
		proceed <- nil
		c.eventually(5*time.Second, "it runs again", c.locked(func() bool { return len(seen) == 2 }))
		if got := c.status("a_t|b_t"); got != windlass.StatusBlocked {
			t.Errorf("between the runs the child is %s", got)
		}
		proceed <- nil
		c.eventually(5*time.Second, "the child runs", c.locked(func() bool { return len(seen) == 3 }))
		proceed <- nil
		c.eventually(5*time.Second, "it completes", c.hasStatus("a_t|b_t", windlass.StatusCompleted))
		effects, errs := c.client.Enqueue(ctx, []windlass.Submission{{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Update: true, Rerun: true}})
		if errs[0] != nil || effects[0] != windlass.EffectRerun {
			t.Errorf("queueing a completed one: %v, %v", effects, errs)
		}
		c.eventually(5*time.Second, "it runs afresh", c.locked(func() bool { return len(seen) == 4 }))
		if got := c.status("a_t|b_t"); got != windlass.StatusCompleted {
			t.Errorf("its completed child is %s", got)
		}
		proceed <- nil
		if want := []string{"a_t=2", "a_t=4", "a_t|b_t=0", "a_t="}; !slices.Equal(seen, want) {
			t.Errorf("the runs saw %q, want %q", seen, want)
		}
	})
}

func TestJobs_Z10_AJobThatIsToRunAgainDoesSoHoweverItsRunEnds(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t")
		c.job("a_t|b_t")
		starts := 0
		c.join("n1", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(ctx context.Context, claim *windlass.Claim) error {
			if starts++; starts > 2 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}}))
		c.eventually(5*time.Second, "it runs", c.hasStatus("a_t", windlass.StatusRunning))
		c.job("a_t", func(s *windlass.Submission) { s.Requeue = true })
		if _, err := c.client.SendTask(t.Context(), "a_t", statemachine.Command{Message: statemachine.Kill}); err != nil {
			t.Fatal(err)
		}
		c.eventually(5*time.Second, "it runs again although it was killed", func() bool { return starts == 2 })
		h, err := c.client.History(t.Context(), "a_t")
		c.eventually(5*time.Second, "the history tells", func() bool {
			h, err = c.client.History(t.Context(), "a_t")
			return err == nil && slices.ContainsFunc(h.Entries, func(e statemachine.HistoryEntry) bool { return e.Event == statemachine.EventRequeued })
		})
		if _, err := c.client.SendTask(t.Context(), "a_t", statemachine.Command{Message: statemachine.Kill}); err != nil {
			t.Fatal(err)
		}
		c.eventually(5*time.Second, "it is killed for good", c.hasStatus("a_t", windlass.StatusKilled))
		if got := c.status("a_t|b_t"); got != windlass.StatusBlocked {
			t.Errorf("the child of what was killed is %s", got)
		}
	})
}

func TestJobs_Z12_NeedsMakeAGraphAndAChainOfTheGreatestDepthRuns(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		id := ""
		for i := range windlass.JobDepthMax {
			if id != "" {
				id += "|"
			}
			id += fmt.Sprintf("%d_t", i)
			c.job(id)
		}
		var wrong *windlass.BadInputError
		err := c.client.Submit(t.Context(), windlass.Submission{ID: id + "|x_t", Spec: windlass.Spec{Type: "t", Job: true}})
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "64") {
			t.Errorf("one deeper: %v", err)
		}
		needs := []string{}
		for i := range windlass.NeedsMax {
			needs = append(needs, fmt.Sprintf("n%d", i))
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: needs[i], Spec: windlass.Spec{Type: "t"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "all", Spec: windlass.Spec{Type: "t", Needs: needs}}); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "n", Spec: windlass.Spec{Type: "t", Needs: append(needs, id)}}); !errors.As(err, &wrong) {
			t.Errorf("one more need: %v", err)
		}
		c.join("n1", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": done}))
		c.eventually(time.Minute, "the deepest job completes", c.hasStatus(id, windlass.StatusCompleted))
		c.eventually(time.Minute, "what needs many completes", c.hasStatus("all", windlass.StatusCompleted))
	})
}

func TestJobs_Z03_AJobIsKeptInTheTreeAndNeedsItsParentThere(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		err := c.client.Submit(t.Context(), windlass.Submission{ID: "a_t|b_t", Spec: windlass.Spec{Type: "t", Job: true}})
		if !errors.Is(err, windlass.ErrNoParent) {
			t.Errorf("below nothing: %v", err)
		}
		var wrong *windlass.BadInputError
		err = c.client.Submit(t.Context(), windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "u", Job: true}})
		if !errors.As(err, &wrong) || wrong.Field != "type" {
			t.Errorf("a type that is not that of the path: %v", err)
		}
		c.job("a_t", func(s *windlass.Submission) { s.Props = json.RawMessage(`{"x":1}`); s.Spec.Priority = 3 })
		c.job("a_t|b_t")
		kv, err := c.store.Get(t.Context(), "/test/tree/a_t/b_t")
		if err != nil {
			t.Fatal(err)
		}
		var record windlass.JobRecord
		if err := json.Unmarshal(kv.Value, &record); err != nil || record.Name != "b" || record.Type != "t" || record.Parent != "a_t" {
			t.Errorf("the tree says %s, %v", kv.Value, err)
		}
		kv, _ = c.store.Get(t.Context(), "/test/tree/a_t")
		if err := json.Unmarshal(kv.Value, &record); err != nil || string(record.Data) != `{"x":1}` || record.Spec.Priority != 3 {
			t.Errorf("the tree says %s, %v", kv.Value, err)
		}
		if err := c.client.Delete(t.Context(), "a_t|b_t"); err != nil {
			t.Fatal(err)
		}
		if _, err = c.store.Get(t.Context(), "/test/tree/a_t/b_t"); err == nil {
			t.Error("a job that was deleted is still in the tree")
		}
	})
}

func TestConcurrency_Z13_BoundsWhatRunsOfATypeInOrderOfPriority(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		for i := range 40 {
			s := windlass.Submission{ID: fmt.Sprintf("t%02d", i), Spec: windlass.Spec{Type: "t", Priority: i % 2}}
			if err := c.client.Submit(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		var order []string
		running, most := 0, 0
		limited := func(config *windlass.Config) {
			handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(ctx context.Context, claim *windlass.Claim) error {
				c.mu.Lock()
				order = append(order, claim.ID())
				running++
				most = max(most, running)
				c.mu.Unlock()
				time.Sleep(time.Second)
				c.mu.Lock()
				running--
				c.mu.Unlock()
				return nil
			}})(config)
			config.Concurrency = map[string]int{"t": 2}
		}
		c.join("n1", limited)
		c.join("n2", limited)
		c.sleep(500 * time.Millisecond)
		for id := range 40 {
			e, err := c.client.Explain(t.Context(), fmt.Sprintf("t%02d", id))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range e.Nodes {
				if e.Status == windlass.StatusPending && (v.Takes || !strings.Contains(v.Why, "runs at most 2 at a time")) {
					t.Errorf("%s waits, and of node %s it is said that it %s", e.ID, v.Node, v.Why)
				}
			}
		}
		took := c.eventually(time.Minute, "all complete", func() bool {
			n, err := c.client.Count(t.Context(), windlass.Filter{})
			return err == nil && n[windlass.StatusCompleted] == 40
		})
		if most != 4 {
			t.Errorf("%d ran at once, on two nodes that run 2 each", most)
		}
		if took > 15*time.Second {
			t.Errorf("40 tasks of a second, 4 at a time, took %v", took)
		}
		important := slices.IndexFunc(order, func(id string) bool { return (id[2]-'0')%2 == 0 })
		// Four slots come free at the same moment: a less important one may be the first
		// to begin of those that fill them, beside the last of the important ones.
		if important < 16 {
			t.Errorf("a less important one ran as number %d: %q", important, order)
		}
	})
}

func TestConcurrency_Z13_WhatSleepsAfterAnErrorIsNotInTheWayOfOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		for _, id := range []string{"a-bad", "b", "c"} {
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t"}}); err != nil {
				t.Fatal(err)
			}
		}
		c.join("n1", func(config *windlass.Config) {
			handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(_ context.Context, claim *windlass.Claim) error {
				if claim.ID() == "a-bad" {
					return windlass.Message(statemachine.SleepUntil(time.Now().Add(time.Hour)))
				}
				return nil
			}})(config)
			config.Concurrency = map[string]int{windlass.AnyType: 1}
		})
		c.eventually(5*time.Second, "the others complete", func() bool {
			return c.status("b") == windlass.StatusCompleted && c.status("c") == windlass.StatusCompleted
		})
		if got := c.status("a-bad"); got != windlass.StatusSleeping {
			t.Errorf("the one that sleeps is %s", got)
		}
	})
}

func TestDequeue_Z07_Z08_TakesTheNextJobOfItsTypeAndEndsIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		m := c.join("n1", func(config *windlass.Config) { config.Handlers, config.Pulls = nil, []string{"t", "u"} })
		if _, err := m.TryDequeue(ctx, "t"); !errors.Is(err, windlass.ErrEmpty) {
			t.Errorf("from nothing: %v", err)
		}
		var wrong *windlass.BadInputError
		if _, err := m.Dequeue(ctx, "x"); !errors.As(err, &wrong) {
			t.Errorf("a type that it does not pull: %v", err)
		}
		c.job("z_t", func(s *windlass.Submission) { s.Props = json.RawMessage(`"z"`) })
		c.job("y_t", func(s *windlass.Submission) { s.Spec.Priority = 1 })
		c.job("z_t|x_t")
		c.job("w_u")
		take := func(want string) *windlass.Dequeued {
			t.Helper()
			c.sleep(time.Second) // for the node to see what was queued, all of it
			d, err := m.TryDequeue(ctx, "t")
			if err != nil || d.ID() != want {
				t.Fatalf("dequeued %v, %v, want %s", d, err, want)
			}
			return d
		}
		y := take("y_t")
		z := take("z_t")
		if string(z.Props()) != `"z"` {
			t.Errorf("its data is %s", z.Props())
		}
		if _, err := m.TryDequeue(ctx, "t"); !errors.Is(err, windlass.ErrEmpty) {
			t.Errorf("while its parent is worked on the child can be taken: %v", err)
		}
		if err := y.Release(ctx); err != nil {
			t.Errorf("release: %v", err)
		}
		y = take("y_t")
		if err := y.Fail(ctx, windlass.Permanent(errors.New("broken"))); err != nil || c.status("y_t") != windlass.StatusFailed {
			t.Errorf("fail: %v, and it is %s", err, c.status("y_t"))
		}
		if err := z.SetResult("made"); err != nil {
			t.Fatal(err)
		}
		if err := z.Complete(ctx); err != nil || c.status("z_t") != windlass.StatusCompleted {
			t.Errorf("complete: %v, and it is %s", err, c.status("z_t"))
		}
		if d, _ := c.client.Task(ctx, "z_t"); string(d.Result) != `"made"` {
			t.Errorf("its result is %s", d.Result)
		}
		if err := z.Release(ctx); err == nil {
			t.Error("what was completed can be released")
		}
		x := take("z_t|x_t")
		if err := c.client.Delete(ctx, "z_t|x_t"); err != nil {
			t.Fatal(err)
		}
		c.settle()
		c.sleep(time.Second)
		if cause := context.Cause(x.Context()); !errors.Is(cause, windlass.ErrDeleted) {
			t.Errorf("its context ended with %v", cause)
		}
		if err := x.Complete(ctx); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("complete what was deleted: %v", err)
		}
	})
}

func TestDequeue_Z08_WhatItsHolderLeavesBehindIsTakenByAnother(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		pull := func(config *windlass.Config) { config.Handlers, config.Pulls = nil, []string{"t"} }
		first := c.join("n1", pull)
		c.job("a_t")
		d, err := first.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		second := c.join("n2", pull)
		got := make(chan *windlass.Dequeued)
		go func() {
			d, err := second.Dequeue(ctx, "t")
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		c.sleep(time.Second)
		go func() {
			<-d.Context().Done()
			_ = d.Release(ctx)
		}()
		if err := first.leave(); err != nil {
			t.Fatal(err)
		}
		again := <-got
		if again.ID() != "a_t" || again.Token() <= d.Token() {
			t.Errorf("the other got %s with token %d after %d", again.ID(), again.Token(), d.Token())
		}
		if err := d.Complete(ctx); err == nil {
			t.Error("the first one completed what it had lost")
		}
		if err := again.Complete(ctx); err != nil {
			t.Error(err)
		}
		if _, err := first.Dequeue(ctx, "t"); !errors.Is(err, windlass.ErrNotRunning) {
			t.Errorf("dequeue on a node that has ended: %v", err)
		}
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := second.Dequeue(waiting, "t"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that was given up: %v", err)
		}
		c.job("b_t")
		c.sleep(time.Second)
		if got := c.status("b_t"); got != windlass.StatusPending {
			t.Errorf("a job is %s although nobody asked for one", got)
		}
	})
}

func TestDequeue_Z13_PullAndPushWorkOnTheSameJobs(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		pulled, pushed := map[string]int{}, map[string]int{}
		puller := c.join("puller", func(config *windlass.Config) { config.Handlers, config.Pulls = nil, []string{"t"} })
		c.join("pusher", func(config *windlass.Config) {
			handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(_ context.Context, claim *windlass.Claim) error {
				time.Sleep(20 * time.Millisecond)
				c.mu.Lock()
				defer c.mu.Unlock()
				pushed[claim.ID()]++
				return nil
			}})(config)
			config.Concurrency = map[string]int{"t": 1}
		})
		for i := range 100 {
			c.job(fmt.Sprintf("%d_t", i))
		}
		working, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				d, err := puller.Dequeue(working, "t")
				if err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
				pulled[d.ID()]++
				if err := d.Complete(ctx); err != nil {
					t.Error(err)
				}
			}
		}()
		c.eventually(time.Minute, "all complete", func() bool {
			n, err := c.client.Count(ctx, windlass.Filter{})
			return err == nil && n[windlass.StatusCompleted] == 100
		})
		stop()
		<-ended
		if len(pulled) == 0 || len(pushed) == 0 || len(pulled)+len(pushed) != 100 {
			t.Errorf("%d were pulled and %d pushed", len(pulled), len(pushed))
		}
	})
}
