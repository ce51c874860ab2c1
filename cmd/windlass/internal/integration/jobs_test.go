package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

func TestJobs_ASkipIsForTheFailureThatItWasMadeFor(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		hold := make(chan struct{})
		var once sync.Once
		held := make(chan struct{})
		c.join("skipper", handlers(map[string]run{"ok": done}), intercept(func(m *interceptor) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				for _, w := range wanted {
					if w.Skipped != "" {
						once.Do(func() { close(held); <-hold }) // the request is slow
					}
				}
				return m.Coordinator.Claim(ctx, wanted)
			}
		}))
		c.join("failer", handlers(map[string]run{"fail": failing}))
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure = windlass.FailureSkips })
		c.job("a_fail|b_ok")
		c.Advance(time.Second)
		<-held
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure, s.Rerun = windlass.FailureBlocks, true })
		c.WaitFor(10*time.Second, "a_fail", windlass.StatusFailed)
		close(hold)
		c.Advance(10 * time.Second)
		c.wantStatus("a_fail|b_ok", windlass.StatusBlocked)
	})
}

func TestJobs_AJobIsQueuedBelowOneOfTheSameCallThatWasAPlainTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.Submit(windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t"}})
		d := c.detach("t", "a_t")
		c.must(lease.New(c.client, nil).Complete(ctx, "a_t", d.Token, nil))
		queued, err := c.jobs(c.store).Queue(ctx, tree.Request{Name: "a", Type: "t"}, tree.Request{Name: "b", Type: "t", Parent: "a_t"})
		if err != nil || len(queued) != 2 {
			t.Errorf("%v, %v", queued, err)
		}
	})
}

// overloaded is a broker that refuses writes of one key for a while. Of several transactions in
// one call only that one fails.
type overloaded struct {
	broker.Broker
	key   string
	until time.Time
}

func (o *overloaded) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	var sent []broker.Txn
	var at []int
	results := make([]broker.Result, len(txns))
	for i, txn := range txns {
		writes := slices.ContainsFunc(txn.Then, func(op broker.Op) bool { return op.Kind == broker.OpPut && op.Key == o.key })
		if writes && time.Now().Before(o.until) {
			results[i].Err = &broker.Error{Op: "commit", Key: o.key, Kind: broker.ErrUnavailable, Cause: errors.New("overloaded"), Maybe: true}
			continue
		}
		sent, at = append(sent, txn), append(at, i)
	}
	for k, r := range o.Broker.Commit(ctx, sent...) {
		results[at[k]] = r
	}
	return results
}

func TestJobs_ACascadeDoesNotStartAJobBeforeTheOneAboveIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var order []string
		c.join("n", handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			order = append(order, claim.ID())
			return nil
		}}))
		ids := []string{"a_t", "a_t|m_t", "a_t|m_t|z_t"}
		for _, id := range ids {
			c.job(id)
		}
		c.WaitFor(10*time.Second, ids[2], windlass.StatusCompleted)
		c.Advance(time.Second)
		c.mu.Lock()
		order = nil
		c.mu.Unlock()
		jobs := c.jobs(&overloaded{Broker: c.Connect(), key: "/test/tasks/" + ids[1], until: time.Now().Add(200 * time.Millisecond)})
		queued, err := jobs.Queue(ctx, tree.Request{Name: "a", Type: "t", Cascade: true})
		t.Logf("%v, %v", queued, err)
		c.Advance(time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Equal(order, ids) {
			t.Errorf("they ran in the order %q", order)
		}
	})
}

// job submits a job of the tree. Its ID is its path, separated by bars.
func (c *cluster) job(id string, change ...func(*windlass.Submission)) {
	c.t.Helper()
	s := windlass.Submission{ID: id, Spec: windlass.Spec{Type: id[strings.LastIndex(id, "_")+1:], Job: true}}
	for _, f := range change {
		f(&s)
	}
	c.Submit(s)
}

func TestJobs_Z06_AnAncestorBlocksAtAnyDepthAndOneThatWasNeverQueuedDoesNot(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ids := []string{"requestFile_alpha", "requestFile_alpha|downloadFile_alpha", "requestFile_alpha|downloadFile_alpha|processFile_alpha"}
		for _, id := range ids {
			c.job(id)
		}
		c.Submit(windlass.Submission{ID: "never|child", Spec: windlass.Spec{Type: "alpha"}})
		var order []string
		proceed := make(chan struct{})
		c.join("n1", handlers(map[string]run{"alpha": func(ctx context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			order = append(order, claim.ID())
			c.mu.Unlock()
			if claim.ID() != "never|child" {
				<-proceed
			}
			return nil
		}}))
		c.WaitFor(5*time.Second, "never|child", windlass.StatusCompleted)
		for i, id := range ids {
			c.WaitFor(5*time.Second, id, windlass.StatusRunning)
			for _, below := range ids[i+1:] {
				c.wantStatus(below, windlass.StatusBlocked)
			}
			proceed <- struct{}{}
		}
		c.WaitFor(5*time.Second, ids[2], windlass.StatusCompleted)
		order = slices.DeleteFunc(order, func(id string) bool { return id == "never|child" })
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
				c.Submit(windlass.Submission{ID: other, Spec: windlass.Spec{Type: "ok", Needs: []string{root}}})
				c.join("n1", handlers(map[string]run{"fail": failing, "ok": done}))
				c.WaitFor(5*time.Second, root, windlass.StatusFailed)
				c.Advance(10 * time.Second)
				for _, id := range []string{mid, leaf, other} {
					d := c.task(id)
					if d.Status != want {
						t.Fatalf("%s is %s, want %s", id, d.Status, want)
					}
					switch want {
					case windlass.StatusBlocked:
						if !slices.Contains(d.FailedNeeds, root) {
							t.Errorf("%s does not say that it waits for one that failed: %+v", id, d.TaskInfo)
						}
						if e := c.explain(id); !strings.Contains(e.Why, "failed or was killed") {
							t.Errorf("%s: %q", id, e.Why)
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
			c.join("n1", handlers(map[string]run{"ok": done, "once": func(ctx context.Context, claim *windlass.Claim) error {
				if !failed {
					failed = true
					return failing(ctx, claim)
				}
				return nil
			}}))
			c.WaitFor(5*time.Second, "a_once", windlass.StatusFailed)
			c.wantStatus("a_once|b_ok", windlass.StatusBlocked)
			if forget {
				c.Advance(time.Second)
				if p, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Millisecond, Unblock: true}, windlass.Filter{}, false); err != nil || len(p.IDs) != 1 {
					t.Fatalf("prune: %v, %v", p, err)
				}
			} else {
				c.job("a_once", func(s *windlass.Submission) { s.Rerun = true })
			}
			c.WaitFor(5*time.Second, "a_once|b_ok", windlass.StatusCompleted)
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
		c.join("n1", handlers(map[string]run{"t": func(ctx context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			seen = append(seen, claim.ID()+"="+string(claim.Props()))
			c.mu.Unlock()
			return <-proceed
		}}))
		c.WaitFor(5*time.Second, "a_t", windlass.StatusRunning)
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
		c.WaitUntil(5*time.Second, "it runs again", c.locked(func() bool { return len(seen) == 2 }))
		c.wantStatus("a_t|b_t", windlass.StatusBlocked)
		proceed <- nil
		c.WaitUntil(5*time.Second, "the child runs", c.locked(func() bool { return len(seen) == 3 }))
		proceed <- nil
		c.WaitFor(5*time.Second, "a_t|b_t", windlass.StatusCompleted)
		effects, errs := c.client.Enqueue(ctx, []windlass.Submission{{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Update: true, Rerun: true}})
		if errs[0] != nil || effects[0] != windlass.EffectRerun {
			t.Errorf("queueing a completed one: %v, %v", effects, errs)
		}
		c.WaitUntil(5*time.Second, "it runs afresh", c.locked(func() bool { return len(seen) == 4 }))
		c.wantStatus("a_t|b_t", windlass.StatusCompleted)
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
		c.join("n1", handlers(map[string]run{"t": func(ctx context.Context, claim *windlass.Claim) error {
			if starts++; starts > 2 {
				return nil
			}
			return untilStopped(ctx, claim)
		}}))
		c.WaitFor(5*time.Second, "a_t", windlass.StatusRunning)
		c.job("a_t", func(s *windlass.Submission) { s.Requeue = true })
		c.sendTask("a_t", statemachine.Kill)
		c.WaitUntil(5*time.Second, "it runs again although it was killed", func() bool { return starts == 2 })
		c.WaitUntil(5*time.Second, "it is in the history", func() bool {
			h, err := inspect.New(c.client).History(t.Context(), "a_t")
			return err == nil && slices.ContainsFunc(h.Entries, func(e statemachine.HistoryEntry) bool { return e.Event == statemachine.EventRequeued })
		})
		c.sendTask("a_t", statemachine.Kill)
		c.WaitFor(5*time.Second, "a_t", windlass.StatusKilled)
		c.wantStatus("a_t|b_t", windlass.StatusBlocked)
	})
}

func TestJobs_Z12_AChainOfTheGreatestDepthRuns(t *testing.T) {
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
		c.join("n1", handlers(map[string]run{"t": done}))
		c.WaitFor(time.Minute, id, windlass.StatusCompleted)
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
		kv := c.get("/test/tree/a_t/b_t")
		var record windlass.JobRecord
		if err := json.Unmarshal(kv.Value, &record); err != nil || record.Name != "b" || record.Type != "t" || record.Parent != "a_t" {
			t.Errorf("the tree says %s, %v", kv.Value, err)
		}
		kv = c.get("/test/tree/a_t")
		if err := json.Unmarshal(kv.Value, &record); err != nil || string(record.Data) != `{"x":1}` || record.Spec.Priority != 3 {
			t.Errorf("the tree says %s, %v", kv.Value, err)
		}
		c.remove("a_t|b_t")
		if _, err = c.store.Get(t.Context(), "/test/tree/a_t/b_t"); err == nil {
			t.Error("a job that was deleted is still in the tree")
		}
	})
}

func TestJobs_Z10_AnUpdateIsNewerThanWhatWaitedForARunThatWasLost(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		var seen []string
		handler := handlers(map[string]run{"t": func(ctx context.Context, claim *windlass.Claim) error {
			if seen = append(seen, string(claim.Props())); len(seen) == 1 {
				return untilStopped(ctx, claim)
			}
			return nil
		}})
		n := c.join("n1", handler)
		submit := func(props string, update, requeue bool, want windlass.Effect) {
			s := windlass.Submission{ID: "x", Spec: windlass.Spec{Type: "t"}, Props: json.RawMessage(props), Update: update, Requeue: requeue}
			if effects, errs := c.client.Enqueue(t.Context(), []windlass.Submission{s}); errs[0] != nil || effects[0] != want {
				t.Fatalf("submit %s: %v, %v", props, effects, errs)
			}
		}
		submit("1", false, false, windlass.EffectCreated)
		c.WaitFor(time.Minute, "x", windlass.StatusRunning)
		submit("2", true, true, windlass.EffectRequeued)
		c.must(n.Stop())
		submit("3", true, true, windlass.EffectUpdated)
		c.join("n2", handler)
		c.WaitFor(time.Minute, "x", windlass.StatusCompleted)
		if want := []string{"1", "3"}; !slices.Equal(seen, want) {
			t.Errorf("the runs saw %q, want %q", seen, want)
		}
	})
}
