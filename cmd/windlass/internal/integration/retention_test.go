package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// countedBroker counts calls of Commit.
type countedBroker struct {
	broker.Broker
	commits atomic.Int64
	takes   time.Duration
}

// Commit implements broker.Broker.
func (b *countedBroker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	b.commits.Add(1)
	time.Sleep(b.takes)
	return b.Broker.Commit(ctx, txns...)
}

// finish completes n tasks, a second apart, and returns their IDs in that order.
func (c *cluster) finish(n int, prefix string) (ids []string) {
	c.t.Helper()
	for i := range n {
		id := fmt.Sprintf("%s%d", prefix, i)
		c.Submit(windlass.Submission{ID: id})
		c.WaitFor(5*time.Second, id, windlass.StatusCompleted)
		c.Advance(time.Second)
		ids = append(ids, id)
	}
	return ids
}

func TestPrune_ForgetsWhatHasEndedAndNothingElse(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", running(done), also("stays", untilStopped))
		c.finish(10, "t")
		for _, id := range []string{"runs", "sleeps", "deleted"} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "stays"}})
			c.WaitFor(5*time.Second, id, windlass.StatusRunning)
			c.Advance(time.Second)
		}
		c.command("sleeps", command("sleep"))
		c.remove("deleted")
		c.Advance(10 * time.Minute)
		dry, err := c.client.Prune(t.Context(), windlass.Retention{Count: 4}, windlass.Filter{}, true)
		if err != nil || len(dry.IDs) != 7 || len(c.collect("/test/state/")) != 11 {
			t.Errorf("%+v, %v", dry, err) // of ten and a deleted one, four stay
		}
		some, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Minute}, windlass.Filter{IDPrefix: "t1"}, false)
		if err != nil || len(some.IDs) != 1 || some.IDs[0] != "t1" {
			t.Errorf("%+v, %v", some, err)
		}
		if _, err := c.client.Task(t.Context(), "t1"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("a task that was forgotten: %v", err)
		}
		none, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Hour}, windlass.Filter{}, false)
		if err != nil || len(none.IDs) != 0 || none.Kept != 10 {
			t.Errorf("%+v, %v", none, err)
		}
		// A note that was written for somebody who does not need it any more.
		c.put("/test/tasks/t3/handover", "")
		all, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Minute}, windlass.Filter{}, false)
		if err != nil || len(all.IDs) != 10 || all.Kept != 0 {
			t.Errorf("%+v, %v", all, err)
		}
		if states, histories := len(c.collect("/test/state/")), len(c.collect("/test/history/")); states != 1 || histories != 2 {
			t.Errorf("%d states and %d histories are left", states, histories)
		}
		if n := len(c.collect("/test/tasks/t3/")); n > 0 {
			t.Errorf("%d notes are left", n)
		}
		for id, want := range map[string]windlass.Status{"runs": windlass.StatusRunning, "sleeps": windlass.StatusSleeping} {
			c.wantStatus(id, want)
		}
		for field, r := range map[string]windlass.Retention{"retention": {}, "retention age": {Age: -1}, "retention count": {Count: -1}} {
			var input *windlass.BadInputError
			if _, err := c.client.Prune(t.Context(), r, windlass.Filter{}, false); !errors.As(err, &input) || input.Field != field {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}

func TestRetention_IsAppliedByOneNodeAtATime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		keep := func(cfg *windlass.Config) { cfg.Retention = windlass.Retention{Count: 3} }
		a := c.join("a", running(done), keep)
		c.join("b", running(done), keep)
		c.finish(8, "t")
		c.Advance(2 * windlass.RetentionEvery)
		if n := len(c.collect("/test/state/")); n != 3 {
			t.Errorf("%d states are left", n)
		}
		if line := c.candidates(windlass.RetentionElection); len(line) != 2 {
			t.Errorf("%q would see to it", line)
		}
		c.must(a.Stop())
		c.finish(8, "u")
		c.Advance(2 * windlass.RetentionEvery)
		if n := len(c.collect("/test/state/")); n != 3 {
			t.Errorf("%d states are left when one node has gone", n)
		}
		if line := c.candidates(windlass.RetentionElection); !slices.Equal(line, []string{"b"}) {
			t.Errorf("%q would see to it", line)
		}
	})
}

// Regression: retention removed the failure of "test", and "deploy", which needs it, ran.
func TestJobs_Z11_NoRetentionForgetsAFailureThatALiveTaskWaitsFor(t *testing.T) {
	for _, retention := range []windlass.Retention{{Age: time.Minute}, {Count: 10}} {
		inEach(t, func(t *testing.T, c *cluster) {
			keeping := func(cfg *windlass.Config) { cfg.Retention = retention }
			c.join("n", keeping, handlers(map[string]run{"fail": failing, "ok": done}))
			c.job("test_fail")
			c.job("test_fail|deploy_ok")
			for _, s := range []windlass.Submission{ // in this order: it waits for nothing that is not there
				{ID: "alone", Spec: windlass.Spec{Type: "fail"}},
				{ID: "needed", Spec: windlass.Spec{Type: "fail"}},
				{ID: "needs", Spec: windlass.Spec{Type: "ok", Needs: []string{"other", "needed"}}},
			} {
				c.Submit(s)
			}
			c.Advance(time.Second)
			c.submit(100, windlass.Spec{Type: "ok"}) // which end later
			c.Advance(5 * time.Minute)
			for id, want := range map[string]windlass.Status{
				"test_fail": windlass.StatusFailed, "test_fail|deploy_ok": windlass.StatusBlocked,
				"needed": windlass.StatusFailed, "needs": windlass.StatusBlocked,
			} {
				c.wantStatus(id, want)
			}
			if _, err := c.client.Task(t.Context(), "alone"); !errors.Is(err, windlass.ErrNotFound) {
				t.Errorf("%+v: a failure that nobody waits for is kept: %v", retention, err)
			}
			p, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Minute}, windlass.Filter{}, true)
			if err != nil || len(p.IDs) > 0 && retention.Age > 0 || p.Blocking != 2 {
				t.Errorf("%+v: by hand as well: %+v, %v", retention, p, err)
			}
			c.remove("needs")
			c.Advance(2 * time.Minute)
			if _, err := c.client.Task(t.Context(), "needed"); !errors.Is(err, windlass.ErrNotFound) {
				t.Errorf("%+v: a failure that nobody waits for any more is kept: %v", retention, err)
			}
		})
	}
}

// Regression: Results returned an empty map and no error, for a task that was blocked for
// longer than the retention keeps what it needs.
func TestResults_NoRetentionForgetsWhatALiveTaskNeeds(t *testing.T) {
	for _, retention := range []windlass.Retention{{Age: time.Minute}, {Count: 10}} {
		inEach(t, func(t *testing.T, c *cluster) {
			release := make(chan struct{})
			read := map[string]string{}
			c.join("n", func(cfg *windlass.Config) { cfg.Retention = retention }, handlers(map[string]run{
				"leaves": func(_ context.Context, claim *windlass.Claim) error { return claim.SetResult(claim.ID()) },
				"slow":   func(context.Context, *windlass.Claim) error { <-release; return nil },
				"ok":     done,
				"reads": func(ctx context.Context, claim *windlass.Claim) error {
					results, err := claim.Results(ctx)
					c.mu.Lock()
					defer c.mu.Unlock()
					read[claim.ID()] = fmt.Sprintf("%s %v", results, err)
					return err
				},
			}))
			defer close(release)
			for _, s := range []windlass.Submission{
				{ID: "alone", Spec: windlass.Spec{Type: "leaves"}},
				{ID: "needed", Spec: windlass.Spec{Type: "leaves"}},
				{ID: "without", Spec: windlass.Spec{Type: "ok"}},
				{ID: "slow", Spec: windlass.Spec{Type: "slow"}},
				{ID: "top_leaves", Spec: windlass.Spec{Type: "leaves", Job: true}},
				{ID: "blocked", Spec: windlass.Spec{Type: "reads", Needs: []string{"needed", "without", "slow"}}},
				{ID: "top_leaves|below_reads", Spec: windlass.Spec{Type: "reads", Job: true, Needs: []string{"slow"}}},
				{ID: "pending", Spec: windlass.Spec{Type: "nobody", Needs: []string{"needed"}}},
			} {
				c.Submit(s)
			}
			c.Advance(time.Second)
			c.submit(100, windlass.Spec{Type: "ok"}) // which end later
			c.Advance(5 * time.Minute)
			if _, err := c.client.Task(t.Context(), "alone"); !errors.Is(err, windlass.ErrNotFound) {
				t.Errorf("%+v: what nobody needs is kept: %v", retention, err)
			}
			p, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Minute, Unblock: true}, windlass.Filter{}, false)
			if err != nil || p.Needed != 3 || p.Blocking != 0 {
				t.Errorf("%+v: by hand: %+v, %v", retention, p, err)
			}
			release <- struct{}{}
			for id, want := range map[string]string{
				"blocked": `map[needed:"needed"] <nil>`, "top_leaves|below_reads": `map[top_leaves:"top_leaves"] <nil>`,
			} {
				c.WaitFor(10*time.Second, id, windlass.StatusCompleted)
				if c.mu.Lock(); read[id] != want {
					t.Errorf("%+v: %s reads %s, want %s", retention, id, read[id], want)
				}
				c.mu.Unlock()
			}
			c.remove("pending")
			c.Advance(2 * time.Minute)
			if p, err = c.client.Prune(t.Context(), windlass.Retention{Age: time.Minute}, windlass.Filter{}, false); err != nil || p.Kept != 0 {
				t.Errorf("%+v: what nobody needs any more is kept: %+v, %v", retention, p, err)
			}
		})
	}
}

func TestResults_NamesTheTasksOfWhichNothingIsKept(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]run{
			"leaves": func(_ context.Context, claim *windlass.Claim) error { return claim.SetResult(claim.ID()) },
			"ok":     done, "fail": failing, "stays": untilStopped,
		}))
		for id, taskType := range map[string]string{
			"left": "leaves", "without": "ok", "failed": "fail", "runs": "stays", "waits": "nobody", "deleted": "stays", "slept": "stays", "pruned": "leaves",
		} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: taskType}})
		}
		c.Advance(5 * time.Second)
		c.command("slept", command("sleep")) // which leaves a state when it is deleted
		c.remove("slept")
		c.remove("deleted")
		p, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Nanosecond}, windlass.Filter{IDPrefix: "pruned"}, false)
		if err != nil || len(p.IDs) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		kept := []string{"left", "without", "failed", "runs", "waits"}
		if results, err := c.client.Results(t.Context(), kept...); err != nil || len(results) != 1 {
			t.Errorf("all of them are kept: %v, %v", results, err)
		}
		results, err := c.client.Results(t.Context(), append([]string{"slept", "pruned", "never", "deleted", "never"}, kept...)...)
		var missing *windlass.NotFoundError
		if !errors.Is(err, windlass.ErrNotFound) || !errors.As(err, &missing) || !slices.Equal(missing.IDs, []string{"deleted", "never", "pruned", "slept"}) {
			t.Errorf("of some nothing is kept: %v", err)
		}
		if string(results["left"]) != `"left"` || len(results) != 1 {
			t.Errorf("what is kept: %s", results)
		}
	})
}

// A held task is to run again, with a need that has ended long before.
func TestResults_NoRetentionForgetsWhatARequeuedTaskWillNeed(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		release, read := make(chan struct{}), make(chan string, 2)
		c.join("n", func(cfg *windlass.Config) { cfg.Retention = windlass.Retention{Age: time.Minute} }, handlers(map[string]run{
			"leaves": func(_ context.Context, claim *windlass.Claim) error { return claim.SetResult(claim.ID()) },
			"reads": func(ctx context.Context, claim *windlass.Claim) error {
				if len(claim.Spec().Needs) == 0 {
					select {
					case <-release:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				results, err := claim.Results(ctx)
				read <- fmt.Sprintf("%s %v", results, err)
				return nil
			},
		}))
		c.Submit(windlass.Submission{ID: "leaf", Spec: windlass.Spec{Type: "leaves"}})
		// Nothing of the name of its ancestor was ever queued.
		c.Submit(windlass.Submission{ID: "never|again", Spec: windlass.Spec{Type: "reads"}})
		c.Advance(time.Second)
		c.Submit(windlass.Submission{ID: "never|again", Spec: windlass.Spec{Type: "reads", Needs: []string{"leaf"}}, Requeue: true})
		c.Advance(5 * time.Minute)
		close(release)
		c.WaitFor(time.Minute, "never|again", windlass.StatusCompleted)
		for _, want := range []string{`map[] <nil>`, `map[leaf:"leaf"] <nil>`} {
			if got := <-read; got != want {
				t.Errorf("it reads %s, want %s", got, want)
			}
		}
	})
}
