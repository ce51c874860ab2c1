package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/statemachine"
)

func TestConcurrency_AClaimThatAnotherNodeWinsDoesNotWedgeItsType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var first atomic.Bool
		c.submit(3, windlass.Spec{Type: "t"})
		c.join("n", oneOfEach, handlers(map[string]run{"t": done}), intercept(func(m *interceptor) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				if !first.CompareAndSwap(false, true) {
					return m.Coordinator.Claim(ctx, wanted)
				}
				// Somebody who is not of this cluster's nodes is faster.
				if err := c.client.Delete(ctx, wanted[0].ID); err != nil {
					t.Error(err)
				}
				results := m.Coordinator.Claim(ctx, wanted)
				<-time.After(100 * time.Millisecond)
				return results
			}
		}))
		c.Advance(time.Hour)
		if n := c.count(windlass.StatusCompleted); n != 2 {
			t.Errorf("after an hour: %v", n)
		}
	})
}

func TestConcurrency_Z13_BoundsWhatRunsOfATypeInOrderOfPriority(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		for i := range 40 {
			c.Submit(windlass.Submission{ID: fmt.Sprintf("t%02d", i), Spec: windlass.Spec{Type: "t", Priority: i % 2}})
		}
		var order []string
		running, most := 0, 0
		counted := handlers(map[string]run{"t": func(ctx context.Context, claim *windlass.Claim) error {
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
		}})
		c.join("n1", counted, limit("t", 2))
		c.join("n2", counted, limit("t", 2))
		c.Advance(500 * time.Millisecond)
		for id := range 40 {
			e, err := inspect.New(c.client).Explain(t.Context(), fmt.Sprintf("t%02d", id))
			c.must(err)
			for _, v := range e.Nodes {
				if e.Status == windlass.StatusPending && (v.Takes || !strings.Contains(v.Why, "runs at most 2 at a time")) {
					t.Errorf("%s waits, and of node %s it is said that it %s", e.ID, v.Node, v.Why)
				}
			}
		}
		took := c.WaitUntil(time.Minute, "all complete", func() bool { return c.count(windlass.StatusCompleted) == 40 })
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
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t"}})
		}
		c.join("n1", oneOfEach, handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			if claim.ID() == "a-bad" {
				return windlass.Message(statemachine.SleepUntil(time.Now().Add(time.Hour)))
			}
			return nil
		}}))
		c.WaitUntil(5*time.Second, "the others complete", func() bool {
			return c.status("b") == windlass.StatusCompleted && c.status("c") == windlass.StatusCompleted
		})
		c.wantStatus("a-bad", windlass.StatusSleeping)
	})
}

func TestConcurrency_Z13_ARefusedClaimLeavesItsRoomToOthers(t *testing.T) {
	for _, calls := range []string{"", " call 1", " call 2"} {
		t.Run(calls, func(t *testing.T) {
			inMemory(t, func(t *testing.T, c *cluster) {
				n := c.join("n1", handlers(map[string]run{"t": done}), limit("t", 1))
				c.Advance(5 * time.Second)
				n.Use(`refuse on commit below "/test/tasks/"` + calls)
				for _, id := range []string{"x", "y"} {
					c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t"}})
				}
				c.Advance(3 * time.Second)
				n.Use("")
				for _, id := range []string{"x", "y"} {
					c.WaitFor(10*time.Minute, id, windlass.StatusCompleted)
				}
			})
		})
	}
}

// limit has a node run at most so many tasks of a type at once.
func limit(taskType string, most int) func(*windlass.Config) {
	return func(cfg *windlass.Config) { cfg.Concurrency = map[string]int{taskType: most} }
}

// oneOfEach has a node run one task of each type at once.
var oneOfEach = limit(windlass.AnyType, 1)

func TestConcurrency_AClaimThatIsRefusedOnceDoesNotWedgeItsType(t *testing.T) {
	for name, bound := range map[string]func(*windlass.Config){
		"concurrency": oneOfEach, "capacity": holding(1),
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				var failed atomic.Bool
				c.submit(3, windlass.Spec{Type: "t"})
				c.join("n", handlers(map[string]run{"t": done}), bound,
					intercept(func(m *interceptor) {
						m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
							if failed.CompareAndSwap(false, true) {
								return slices.Repeat([]coordinator.Result{{Err: broker.NewError("commit", "", broker.ErrUnavailable, nil)}}, len(wanted))
							}
							return m.Coordinator.Claim(ctx, wanted)
						}
					}))
				c.Advance(time.Hour)
				if n := c.count(windlass.StatusCompleted); n != 3 {
					t.Errorf("after an hour: %v", n)
				}
			})
		})
	}
}

func TestConcurrency_WhatBecomesOpenByTimeIsPlannedAlthoughItsClassWasFull(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		proceed := make(chan struct{})
		c.join("n", oneOfEach, handlers(map[string]run{"t": func(ctx context.Context, claim *windlass.Claim) error {
			if claim.ID() == "a" {
				<-proceed
			}
			return nil
		}}))
		sub := func(id string, spec windlass.Spec) {
			t.Helper()
			spec.Type = "t"
			c.Submit(windlass.Submission{ID: id, Spec: spec})
			c.Advance(time.Second)
		}
		sub("a", windlass.Spec{})
		sub("b", windlass.Spec{}) // nowhere: the class is full
		c.remove("b")
		c.Advance(time.Second)
		sub("c", windlass.Spec{NotBefore: time.Now().Add(time.Minute)})
		close(proceed)
		c.Advance(time.Hour)
		c.wantStatus("c", windlass.StatusCompleted)
	})
}

func TestConcurrency_AClaimOnWhatSleepsDoesNotWedgeItsType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		first := c.join("first", handlers(map[string]run{"t": func(context.Context, *windlass.Claim) error {
			return windlass.Message(statemachine.Command{Message: statemachine.Pause})
		}}))
		c.Submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t"}})
		c.WaitFor(time.Minute, "a", windlass.StatusPaused)
		c.must(first.Stop())
		c.Submit(windlass.Submission{ID: "b", Spec: windlass.Spec{Type: "t"}})
		c.join("n", oneOfEach, handlers(map[string]run{"t": done}), intercept(func(m *interceptor) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				results := m.Coordinator.Claim(ctx, wanted)
				<-time.After(100 * time.Millisecond) // a slow answer
				return results
			}
		}))
		c.Advance(time.Hour)
		c.wantStatus("b", windlass.StatusCompleted)
	})
}

func countClaims(n *atomic.Int64) func(*windlass.Config) {
	return intercept(func(m *interceptor) {
		m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
			n.Add(int64(len(wanted)))
			return m.Coordinator.Claim(ctx, wanted)
		}
	})
}

func TestConcurrency_AHandlerThatIsSlowToStopDoesNotMakeTheNextOneGoRound(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		var claims atomic.Int64
		w.joinFaulty("n", "delay-request 1ms on commit", w.slowToStop(3*time.Second), oneOfEach, countClaims(&claims))
		w.Advance(time.Second)
		w.submit(2, windlass.Spec{Timeout: windlass.Duration(2 * time.Second), Retry: &windlass.Retry{Min: windlass.Duration(time.Hour), Max: windlass.Duration(2 * time.Hour)}})
		w.Advance(2500 * time.Millisecond)
		w.must(w.client.Submit(t.Context(), windlass.Submission{ID: "x"})) // something changes meanwhile
		w.Advance(2 * time.Second)
		if n := claims.Load(); n > 3 {
			t.Errorf("%d claims for two tasks, one after the other", n)
		}
	})
}

func TestConcurrency_ANodeThatIsFullDoesNotStandInForOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var claims atomic.Int64
		c.join("a", oneOfEach, countClaims(&claims))
		c.join("b", func(cfg *windlass.Config) { cfg.NewTask = func(string, json.RawMessage) windlass.Task { return nil } })
		c.Advance(time.Second)
		c.submit(20, windlass.Spec{})
		c.Advance(time.Minute)
		if n := claims.Load(); n > 30 {
			t.Errorf("%d claims in a minute by a node that runs one task at a time", n)
		}
	})
}

func TestConcurrency_TheImportantOneIsFirstAlthoughOthersAreHeavier(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(20, windlass.Spec{Type: "t", Weight: 2})
		c.Submit(windlass.Submission{ID: "important", Spec: windlass.Spec{Type: "t", Priority: 100}})
		var order []string
		c.join("n", oneOfEach, handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			order = append(order, claim.ID())
			c.mu.Unlock()
			<-time.After(time.Second)
			return nil
		}}))
		c.WaitFor(time.Minute, "important", windlass.StatusCompleted)
		if len(order) > 2 {
			t.Errorf("the important one ran as number %d", len(order))
		}
	})
}

func TestConcurrency_WhatABalancerRefusesIsNotInTheWayOfOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(3, windlass.Spec{Type: "t"})
		c.join("n", oneOfEach, handlers(map[string]run{"t": done}),
			claimingIf(func(v *windlass.View, c windlass.Candidate) (bool, time.Time) {
				return c.Task.ID() != "task-000", v.Now.Add(time.Hour)
			}))
		c.Advance(30 * time.Minute)
		if n := c.count(windlass.StatusCompleted); n != 2 {
			t.Errorf("after half an hour: %v", n)
		}
	})
}
