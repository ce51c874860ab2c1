package windlass_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

func limit(most int) func(*windlass.Config) {
	return func(cfg *windlass.Config) { cfg.Concurrency = map[string]int{windlass.AnyType: most} }
}

func refused() error {
	return &broker.Error{Op: "commit", Kind: broker.ErrUnavailable, Maybe: false}
}

func TestRegression_AClaimThatIsRefusedOnceDoesNotWedgeItsType(t *testing.T) {
	for name, bound := range map[string]func(*windlass.Config){
		"concurrency": limit(1), "capacity": func(cfg *windlass.Config) { cfg.Capacity = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				var failed atomic.Bool
				c.submit(3, windlass.Spec{Type: "t"})
				c.join("n", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": done}), bound,
					meddle(func(m *meddler) {
						m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
							if failed.CompareAndSwap(false, true) {
								results := make([]coordinator.Result, len(wanted))
								for i := range results {
									results[i].Err = refused()
								}
								return results
							}
							return m.Coordinator.Claim(ctx, wanted)
						}
					}))
				c.sleep(time.Hour)
				n, err := c.client.Count(t.Context(), windlass.Filter{})
				if err != nil || n[windlass.StatusCompleted] != 3 {
					t.Errorf("after an hour: %v, %v", n, err)
				}
			})
		})
	}
}

func TestRegression_WhatBecomesOpenByTimeIsPlannedAlthoughItsClassWasFull(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		proceed := make(chan struct{})
		c.join("n", limit(1), handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(ctx context.Context, claim *windlass.Claim) error {
			if claim.ID() == "a" {
				<-proceed
			}
			return nil
		}}))
		sub := func(id string, spec windlass.Spec) {
			t.Helper()
			spec.Type = "t"
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id, Spec: spec}); err != nil {
				t.Fatal(err)
			}
			c.sleep(time.Second)
		}
		sub("a", windlass.Spec{})
		sub("b", windlass.Spec{}) // nowhere: the class is full
		if err := c.client.Delete(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Second)
		sub("c", windlass.Spec{NotBefore: time.Now().Add(time.Minute)})
		close(proceed)
		c.sleep(time.Hour)
		if got := c.status("c"); got != windlass.StatusCompleted {
			t.Errorf("an hour after its time it is %s", got)
		}
	})
}

func TestRegression_AClaimOnWhatSleepsDoesNotWedgeItsType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		first := c.join("first", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(context.Context, *windlass.Claim) error {
			return windlass.Message(statemachine.Command{Message: statemachine.Pause})
		}}))
		if err := c.client.Submit(ctx, windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t"}}); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Minute, "it is paused", c.hasStatus("a", windlass.StatusPaused))
		if err := first.leave(); err != nil {
			t.Fatal(err)
		}
		if err := c.client.Submit(ctx, windlass.Submission{ID: "b", Spec: windlass.Spec{Type: "t"}}); err != nil {
			t.Fatal(err)
		}
		c.join("n", limit(1), handlers(map[string]func(context.Context, *windlass.Claim) error{"t": done}), meddle(func(m *meddler) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				results := m.Coordinator.Claim(ctx, wanted)
				<-time.After(100 * time.Millisecond) // a slow answer
				return results
			}
		}))
		c.sleep(time.Hour)
		if got := c.status("b"); got != windlass.StatusCompleted {
			t.Errorf("after an hour b is %s, a is %s", got, c.status("a"))
		}
	})
}

func countClaims(n *atomic.Int64) func(*windlass.Config) {
	return meddle(func(m *meddler) {
		m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
			n.Add(int64(len(wanted)))
			return m.Coordinator.Claim(ctx, wanted)
		}
	})
}

func TestRegression_AHandlerThatIsSlowToStopDoesNotMakeTheNextOneGoRound(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var claims atomic.Int64
		w.joins("n", "delay-request 1ms on commit", w.slowToStop(3*time.Second), limit(1), countClaims(&claims))
		w.sleep(time.Second)
		w.submit(2, windlass.Spec{Timeout: windlass.Duration(2 * time.Second), Retry: &windlass.Retry{Min: windlass.Duration(time.Hour), Max: windlass.Duration(2 * time.Hour)}})
		w.sleep(2500 * time.Millisecond)
		if err := w.client.Submit(t.Context(), windlass.Submission{ID: "x"}); err != nil { // something changes meanwhile
			t.Fatal(err)
		}
		w.sleep(2 * time.Second)
		if n := claims.Load(); n > 3 {
			t.Errorf("%d claims for two tasks, one after the other", n)
		}
	})
}

func TestRegression_ANodeThatIsFullDoesNotStandInForOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var claims atomic.Int64
		c.join("a", limit(1), countClaims(&claims))
		c.join("b", func(cfg *windlass.Config) { cfg.NewTask = func(string, json.RawMessage) windlass.Task { return nil } })
		c.sleep(time.Second)
		c.submit(20, windlass.Spec{})
		c.sleep(time.Minute)
		if n := claims.Load(); n > 30 {
			t.Errorf("%d claims in a minute by a node that runs one task at a time", n)
		}
	})
}

func TestRegression_TheImportantOneIsFirstAlthoughOthersAreHeavier(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.submit(20, windlass.Spec{Type: "t", Weight: 2})
		if err := c.client.Submit(ctx, windlass.Submission{ID: "important", Spec: windlass.Spec{Type: "t", Priority: 100}}); err != nil {
			t.Fatal(err)
		}
		var order []string
		c.join("n", limit(1), handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			order = append(order, claim.ID())
			c.mu.Unlock()
			<-time.After(time.Second)
			return nil
		}}))
		c.eventually(time.Minute, "all are done", c.hasStatus("important", windlass.StatusCompleted))
		if len(order) > 2 {
			t.Errorf("the important one ran as number %d", len(order))
		}
	})
}

func TestRegression_WhatIsRequeuedStandsInLineAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		c.sleep(time.Second)
		c.job("b_t")
		var order []string
		for range 5 {
			d, err := n.Dequeue(ctx, "t")
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, d.ID())
			if d.ID() == "a_t" {
				c.job("a_t", func(s *windlass.Submission) { s.Requeue = true })
			}
			if err := d.Complete(ctx); err != nil {
				t.Fatal(err)
			}
			c.sleep(time.Second)
		}
		if order[1] != "b_t" {
			t.Errorf("they were dequeued in the order %q; b was submitted before a was again", order)
		}
	})
}

func TestRegression_AHandlerGetsTheTaskAsItWasUpdated(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var got []string
		proceed := make(chan struct{})
		c.join("n", func(cfg *windlass.Config) {
			cfg.NewTask = func(id string, props json.RawMessage) windlass.Task { return updatable{id, string(props)} }
		}, handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(_ context.Context, claim *windlass.Claim) error {
			if claim.ID() == "a_t" {
				<-proceed
				return nil
			}
			got = append(got, claim.Task().(updatable).props, string(claim.Props()))
			return nil
		}}))
		set := func(props string) func(*windlass.Submission) {
			return func(s *windlass.Submission) { s.Props, s.Update = json.RawMessage(props), true }
		}
		c.job("a_t")
		c.sleep(time.Second)
		c.job("a_t|b_t", set(`1`))
		c.sleep(time.Second)
		c.job("a_t|b_t", set(`2`))
		c.sleep(time.Second)
		close(proceed)
		c.eventually(time.Minute, "it runs", c.hasStatus("a_t|b_t", windlass.StatusCompleted))
		if got[0] != "2" || got[1] != "2" {
			t.Errorf("the task says %s, the properties say %s", got[0], got[1])
		}
	})
}

type updatable struct{ id, props string }

func (r updatable) ID() string { return r.id }

// refuses refuses one task, for an hour.
type refuses struct{ id string }

func (b refuses) CanClaim(v *windlass.View, c windlass.Candidate) (bool, time.Time) {
	return c.Task.ID() != b.id, v.Now.Add(time.Hour)
}

func (refuses) Balance(*windlass.View) []string { return nil }

func TestRegression_WhatABalancerRefusesIsNotInTheWayOfOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(3, windlass.Spec{Type: "t"})
		c.join("n", limit(1), handlers(map[string]func(context.Context, *windlass.Claim) error{"t": done}),
			func(cfg *windlass.Config) { cfg.Balancer = refuses{"task-000"} })
		c.sleep(30 * time.Minute)
		n, err := c.client.Count(t.Context(), windlass.Filter{})
		if err != nil || n[windlass.StatusCompleted] != 2 {
			t.Errorf("after half an hour: %v, %v", n, err)
		}
	})
}
