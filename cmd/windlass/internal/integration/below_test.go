package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/commands"
)

// needs returns a change of a submission.
func needs(needs ...string) func(*windlass.Submission) {
	return func(s *windlass.Submission) { s.Spec.Needs = needs }
}

// A map and reduce: the job at the top finds the parts, each part finds pieces, and the sum
// is submitted with the first, in front of it.
func TestBelow_Z12_AJobThatNeedsAllBelowAnotherRunsAfterWhatItsHandlersHaveQueued(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		const parts, pieces = 20, 5
		var sum atomic.Int64
		under := func(ctx context.Context, claim *windlass.Claim, n int, jobType string) error {
			var all []windlass.Submission
			for i := range n {
				all = append(all, windlass.Submission{ID: fmt.Sprintf("%s|%d_%s", claim.ID(), i, jobType), Spec: windlass.Spec{Type: jobType, Job: true}})
			}
			errs := c.client.SubmitAll(ctx, all)
			for i, err := range errs { // it may have been moved, and run before
				if errors.Is(err, windlass.ErrExists) || errors.Is(err, windlass.ErrFinished) {
					errs[i] = nil
				}
			}
			return errors.Join(errs...)
		}
		runs := handlers(map[string]run{
			"list":  func(ctx context.Context, claim *windlass.Claim) error { return under(ctx, claim, parts, "part") },
			"part":  func(ctx context.Context, claim *windlass.Claim) error { return under(ctx, claim, pieces, "piece") },
			"piece": func(_ context.Context, claim *windlass.Claim) error { return claim.SetResult(1) },
			"sum": func(ctx context.Context, claim *windlass.Claim) error {
				found, err := claim.Results(ctx)
				for _, result := range found {
					var n int64
					if json.Unmarshal(result, &n) == nil {
						sum.Add(n)
					}
				}
				return err
			},
		})
		c.join("n1", runs)
		c.join("n2", runs)
		c.Submit(
			windlass.Submission{ID: "all_sum", Spec: windlass.Spec{Type: "sum", Job: true, Needs: []string{"a_list|*"}}},
			windlass.Submission{ID: "a_list", Spec: windlass.Spec{Type: "list", Job: true}},
		)
		c.WaitFor(time.Minute, "all_sum", windlass.StatusCompleted)
		if sum.Load() != parts*pieces {
			t.Errorf("it adds up %d", sum.Load())
		}
	})
}

func TestBelow_M11_AJobThatComesBeforeTheClaimIsWaitedFor(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_x", func(s *windlass.Submission) { s.Spec.NotBefore = time.Now().Add(time.Hour) })
		var begun, late atomic.Bool
		c.join("n", handlers(map[string]run{"t": func(context.Context, *windlass.Claim) error { begun.Store(true); return nil }, "x": done}), intercept(func(m *interceptor) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				if wanted[0].ID == "sum_t" && !late.Swap(true) {
					c.must(c.client.Submit(ctx, windlass.Submission{ID: "a_x|late_x", Spec: windlass.Spec{Type: "x", Job: true, NotBefore: time.Now().Add(6 * time.Second)}}))
				}
				return m.Coordinator.Claim(ctx, wanted)
			}
		}))
		c.job("sum_t", needs("a_x|*"))
		c.Advance(3 * time.Second)
		c.wantStatus("sum_t", windlass.StatusBlocked)
		c.job("a_x", func(s *windlass.Submission) { s.Update = true })
		c.WaitFor(time.Minute, "a_x", windlass.StatusCompleted)
		c.Advance(time.Second)
		if c.wantStatus("sum_t", windlass.StatusBlocked); !late.Load() || begun.Load() {
			t.Errorf("there is another job below it: %t; it runs: %t", late.Load(), begun.Load())
		}
		c.WaitFor(time.Minute, "sum_t", windlass.StatusCompleted)
	})
}

func TestBelow_Z11_AFailureBelowHoldsItUpOrSkipsIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]run{"ok": done, "bad": failing}))
		c.job("block_ok")
		c.job("block_ok|b_ok")
		c.job("block_ok|b_ok|c_bad")
		c.job("skip_ok")
		c.job("skip_ok|c_bad", func(s *windlass.Submission) { s.Spec.OnFailure = windlass.FailureSkips })
		c.job("skip_ok|d_ok", func(s *windlass.Submission) { s.Spec.NotBefore = time.Now().Add(time.Hour) })
		c.job("waits_ok", needs("block_ok|*"))
		c.job("killed_ok", needs("skip_ok|*"))
		c.WaitFor(time.Minute, "killed_ok", windlass.StatusKilled)
		c.WaitFor(time.Minute, "block_ok|b_ok|c_bad", windlass.StatusFailed)
		c.Advance(time.Second)
		c.wantStatus("waits_ok", windlass.StatusBlocked)
		e, err := inspect.New(c.client).Explain(t.Context(), "waits_ok")
		if c.must(err); !strings.Contains(e.Why, "it waits for block_ok|b_ok|c_bad, which failed") {
			t.Error(e.Why)
		}
		pruned, err := c.client.Prune(t.Context(), windlass.Retention{Age: time.Nanosecond}, windlass.Filter{}, false)
		if c.must(err); pruned.Blocking != 1 {
			t.Errorf("forgotten: %q, kept because it blocks: %d", pruned.IDs, pruned.Blocking)
		}
		c.must(c.client.Rerun(t.Context(), windlass.Rerun{Change: func(s *windlass.Submission) error { s.Spec.NotBefore = time.Now().Add(time.Hour); return nil }}, "block_ok|b_ok|c_bad")[0])
		c.must(c.client.Delete(t.Context(), "block_ok|b_ok|c_bad"))
		c.WaitFor(time.Minute, "waits_ok", windlass.StatusCompleted)
	})
}

func TestBelow_Z12_NothingBelowMayWaitForIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		refused := func(what string, all ...windlass.Submission) {
			t.Helper()
			for _, err := range c.client.SubmitAll(t.Context(), all) {
				var wrong *windlass.BadInputError
				if errors.As(err, &wrong) && wrong.Field == "needs" {
					return
				}
				t.Logf("%s: %v", what, err)
			}
			t.Errorf("%s is not refused", what)
		}
		job := func(id string, needs ...string) windlass.Submission {
			return windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t", Job: true, Needs: needs}}
		}
		refused("itself", job("a_t", "a_t|*"))
		refused("what is above it", job("a_t"), job("a_t|b_t", "a_t|*"))
		refused("no job", job("x_t", "plain|*"))
		refused("a cycle in one call", job("b_t"), job("b_t|c_t", "sum_t"), job("sum_t", "b_t|*"))
		c.Submit(job("d_t"), job("d_t|e_t"), job("total_t", "d_t|*"), job("next_t", "total_t"))
		refused("a cycle with what is there", job("d_t|e_t|f_t", "next_t"))
		c.Submit(job("d_t|e_t|g_t"))
		doubts, err := inspect.New(c.client).Warnings(t.Context(), []windlass.Submission{job("total_t", "d_t|*", "none_t|*")})
		if c.must(err); !strings.Contains(strings.Join(doubts, "; "), `needs "none_t"`) || strings.Contains(strings.Join(doubts, "; "), "d_t") {
			t.Errorf("%q", doubts)
		}
		c.wantStatus("total_t", windlass.StatusBlocked)
		for _, id := range []string{"plain|*", "d_t|plain", "d_t|e_t|plain_t"} {
			var wrong *windlass.BadInputError
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id}); !errors.As(err, &wrong) || wrong.Field != "task ID" {
				t.Errorf("a task that is no job and is called %s: %v", id, err)
			}
		}
		c.must(c.client.Submit(t.Context(), windlass.Submission{ID: "plain|x"}))
	})
}

func TestBelow_WhatIsRefusedOrDeletedBelowIsNotPassedOver(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		job := func(id string, needs ...string) windlass.Submission {
			return windlass.Submission{ID: id, Spec: windlass.Spec{Type: id[strings.LastIndex(id, "_")+1:], Job: true, Needs: needs}}
		}
		bad := job("a_t|b_t|bad_t")
		bad.Spec.Priority = 100_000
		errs := c.client.SubmitAll(t.Context(), []windlass.Submission{job("sum_t", "a_t|*"), job("a_t"), job("a_t|b_t"), bad})
		if !errors.Is(errs[0], windlass.ErrUnmetNeed) || errs[1] != nil || errs[2] != nil {
			t.Errorf("%v", errs)
		}
		c.Submit(job("sum_t", "a_t|*"))
		needed, ok := errors.AsType[*commands.NeededError](c.apply(deletes(false), "a_t|b_t")["a_t|b_t"])
		if !ok || needed.By[0] != "sum_t" {
			t.Errorf("%v", needed)
		}
		if below, err := commands.Dependents(t.Context(), c.client, []string{"a_t|b_t"}); err != nil || len(below) != 1 || below[0] != "sum_t" {
			t.Errorf("below a_t|b_t are %q, %v", below, err)
		}
	})
}
