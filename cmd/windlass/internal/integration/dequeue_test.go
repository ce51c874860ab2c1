package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestJobs_WhatIsPulledIsSkippedThoughNobodyAsksForIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]func(context.Context, *windlass.Claim) error{"fail": failing}), func(cfg *windlass.Config) { cfg.Pulls = []string{"t"} })
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure = windlass.FailureSkips })
		c.job("a_fail|b_t")
		c.Advance(time.Minute)
		if got := c.status("a_fail|b_t"); got != windlass.StatusKilled {
			t.Errorf("it is %s", got)
		}
	})
}

func TestDequeue_TryDequeueFindsATaskThatHasJustBeenUpdated(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		c.Advance(time.Second)
		for range 20 {
			c.job("a_t", func(s *windlass.Submission) { s.Update = true })
			d, err := n.TryDequeue(ctx, "t")
			if err != nil {
				t.Fatalf("it was there for a second: %v", err)
			}
			if err := d.Release(ctx); err != nil {
				t.Fatal(err)
			}
			c.Advance(time.Second)
		}
	})
}

func TestDequeue_AJobThatIsDequeuedAfterItSleptIsWorkedOn(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t", func(s *windlass.Submission) { s.Spec.Retry = &windlass.Retry{Min: windlass.Duration(10 * time.Second)} })
		d := c.detach("t", "a_t")
		if err := c.client.FailDetached(t.Context(), "a_t", d.Token, errors.New("first")); err != nil {
			t.Fatal(err)
		}
		c.Advance(30 * time.Second)
		c.detach("t", "a_t")
		if got := c.status("a_t"); got != windlass.StatusRunning {
			t.Errorf("while somebody works on it it is %s", got)
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
			c.Advance(time.Second) // for the node to see what was queued, all of it
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
		c.Advance(0)
		c.Advance(time.Second)
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
		c.Advance(time.Second)
		go func() {
			<-d.Context().Done()
			_ = d.Release(ctx)
		}()
		if err := first.Stop(); err != nil {
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
		c.Advance(time.Second)
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
		c.WaitUntil(time.Minute, "all complete", func() bool {
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

func TestDequeue_Z08_WhoEndsATaskIsAnsweredAlsoWhenTheSessionIsOver(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := c.Start("n1", windlass.Config{Pulls: []string{"t"}})
		c.Submit(windlass.Submission{ID: "x", Spec: windlass.Spec{Type: "t"}})
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.Partition()
		<-d.Context().Done()
		c.Advance(time.Minute) // too late for the node, which has gone on without it
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := d.Complete(ctx); !errors.Is(err, windlass.ErrLost) {
			t.Errorf("complete when the session is over: %v", err)
		}
	})
}

func pulling(types ...string) func(*windlass.Config) {
	return func(cfg *windlass.Config) { cfg.Handlers, cfg.Pulls = nil, types }
}

// within calls f and tells whether it came back.
func within(c *cluster, d time.Duration, f func() error) (err error, back bool) {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err, true
	case <-time.After(d):
		return nil, false
	}
}

func TestDequeue_CompleteAfterTheIncarnationIsOverReturns(t *testing.T) {
	inWorldWith(t, windlasstest.Options{AllowOverlaps: true}, func(t *testing.T, w *cluster) {
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.Partition()
		w.Advance(time.Minute)
		n.Heal()
		w.Advance(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err, back := within(w, time.Hour, func() error { return d.Complete(ctx) })
		if !back {
			t.Errorf("Complete has not returned after an hour; the context of the task: %v", context.Cause(d.Context()))
		} else if !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("Complete: %v", err)
		}
	})
}

func TestDequeue_CompleteWhileTheBrokerIsAwayReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.Partition()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err, back := within(w, time.Hour, func() error { return d.Complete(ctx) })
		if !back {
			t.Errorf("Complete has not returned after an hour")
		} else {
			t.Logf("Complete: %v", err)
		}
		n.Heal()
		w.Advance(time.Minute)
	})
}

func TestDequeue_CompleteWhileTheBrokerIsSilentReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err, back := within(w, time.Hour, func() error { return d.Complete(ctx) })
		if !back {
			t.Errorf("Complete has not returned after an hour")
		} else {
			t.Logf("Complete: %v", err)
		}
		n.Thaw()
		w.Advance(time.Minute)
	})
}

func TestDequeue_CompleteAfterRunHasReturnedReturns(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", pulling("t"))
		c.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(n.Stop())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if err, back := within(c, time.Hour, func() error { return d.Complete(ctx) }); !back {
			t.Errorf("Complete has not returned after an hour")
		} else {
			t.Log(err)
		}
		if err, back := within(c, time.Hour, func() error { return d.Release(ctx) }); !back {
			t.Errorf("Release has not returned after an hour")
		} else {
			t.Log(err)
		}
	})
}

func TestDequeue_TryDequeueReturnsOnAFrozenNode(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", pulling("t"))
		c.Advance(time.Second)
		if err := c.client.Send(t.Context(), "n", windlass.Command{Command: windlass.CommandFreeze}); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.TryDequeue(ctx, "t"); !errors.Is(err, windlass.ErrEmpty) {
			t.Errorf("TryDequeue: %v", err)
		}
	})
}

func TestDequeue_TryDequeueReturnsWhileTheBrokerIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		n := w.joins("n", "", pulling("t"))
		w.Advance(time.Second)
		n.Partition()
		w.Advance(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.TryDequeue(ctx, "t"); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryDequeue: %v", err)
		}
		n.Heal()
		w.Advance(time.Minute)
	})
}

func TestDequeue_TasksOfATypeThatANodePullsAreNotMovedToIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a-pusher", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": untilStopped}))
		c.Advance(time.Second)
		ids := c.submit(20, windlass.Spec{Type: "t"})
		c.Advance(20 * time.Second)
		c.join("b-both", func(cfg *windlass.Config) { cfg.Pulls = []string{"t"} })
		c.Advance(10 * time.Minute)
		starts := 0
		for _, id := range ids {
			starts += c.startsOf(id)
		}
		if starts != 20 {
			t.Errorf("%d starts of 20 tasks that only one node runs", starts)
		}
	})
}

func TestDequeue_DequeueLeavesWhatMayNotRunHere(t *testing.T) {
	for name, spec := range map[string]windlass.Spec{
		"pinned": {Node: "other"}, "label": {Require: map[string]string{"gpu": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				n := c.join("n", pulling("t"))
				c.job("a_t", func(s *windlass.Submission) {
					s.Spec.Node, s.Spec.Require = spec.Node, spec.Require
				})
				c.Advance(time.Second)
				d, err := n.TryDequeue(t.Context(), "t")
				if err == nil {
					t.Errorf("%s was dequeued on n", d.ID())
					_ = d.Release(t.Context())
				}
			})
		})
	}
}

func TestDequeue_TheTallyCountsNoPulledClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		ctx := t.Context()
		hold := make(chan struct{})
		var holding atomic.Bool
		n := w.joins("n", "", func(cfg *windlass.Config) {
			cfg.Pulls, cfg.Capacity = []string{"t"}, 1
		}, meddle(func(m *meddler) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				results := m.Coordinator.Claim(ctx, wanted)
				if holding.CompareAndSwap(true, false) {
					<-hold
				}
				return results
			}
		}))
		w.Advance(time.Second)
		holding.Store(true)
		got := make(chan *windlass.Dequeued, 1)
		go func() {
			d, _ := n.Dequeue(ctx, "t")
			got <- d
		}()
		w.job("a_t")
		w.Advance(time.Second)
		n.Use(`compact on batch below "/test/tasks/"`)
		w.job("b_t")
		w.Advance(5 * time.Second)
		n.Use("")
		w.job("c_t")
		w.Advance(5 * time.Second)
		close(hold)
		d := <-got
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		w.Advance(time.Second)
		w.Submit(windlass.Submission{ID: "h"})
		w.Advance(time.Minute)
		if w.startsOf("h") != 1 {
			t.Errorf("the node holds nothing and has capacity for one; h is %s", w.status("h"))
		}
	})
}
