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
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestJobs_WhatIsPulledIsSkippedThoughNobodyAsksForIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]run{"fail": failing}), alsoPulling("t"))
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure = windlass.FailureSkips })
		c.job("a_fail|b_t")
		c.Advance(time.Minute)
		c.wantStatus("a_fail|b_t", windlass.StatusKilled)
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
			c.must(d.Release(ctx))
			c.Advance(time.Second)
		}
	})
}

func TestDequeue_AJobThatIsDequeuedAfterItSleptIsWorkedOn(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t", func(s *windlass.Submission) { s.Spec.Retry = &windlass.Retry{Min: windlass.Duration(10 * time.Second)} })
		d := c.detach("t", "a_t")
		c.must(lease.New(c.client, nil).Fail(t.Context(), "a_t", d.Token, errors.New("first")))
		c.Advance(30 * time.Second)
		c.detach("t", "a_t")
		c.wantStatus("a_t", windlass.StatusRunning)
	})
}

func TestDequeue_Z07_Z08_TakesTheNextJobOfItsTypeAndEndsIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		m := c.join("n1", pulling("t", "u"))
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
		c.must(z.SetResult("made"))
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
		c.remove("z_t|x_t")
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
		first := c.join("n1", pulling("t"))
		c.job("a_t")
		d := c.dequeue(first, "t")
		second := c.join("n2", pulling("t"))
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
		c.must(first.Stop())
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
		c.wantStatus("b_t", windlass.StatusPending)
	})
}

func TestDequeue_Z13_PullAndPushWorkOnTheSameJobs(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		pulled, pushed := map[string]int{}, map[string]int{}
		puller := c.join("puller", pulling("t"))
		c.join("pusher", limit("t", 1), handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			time.Sleep(20 * time.Millisecond)
			c.mu.Lock()
			defer c.mu.Unlock()
			pushed[claim.ID()]++
			return nil
		}}))
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
		c.WaitUntil(time.Minute, "all complete", func() bool { return c.count(windlass.StatusCompleted) == 100 })
		stop()
		<-ended
		if len(pulled) == 0 || len(pushed) == 0 || len(pulled)+len(pushed) != 100 {
			t.Errorf("%d were pulled and %d pushed", len(pulled), len(pushed))
		}
	})
}

func TestDequeue_Z08_WhoEndsATaskIsAnsweredAlsoWhenTheSessionIsOver(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		n := c.join("n1", pulling("t"))
		c.Submit(windlass.Submission{ID: "x", Spec: windlass.Spec{Type: "t"}})
		d := c.dequeue(n, "t")
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

// pulling makes a node claim tasks of these types only when it dequeues.
func pulling(types ...string) func(*windlass.Config) {
	return func(cfg *windlass.Config) { cfg.Handlers, cfg.Pulls = nil, types }
}

func alsoPulling(types ...string) func(*windlass.Config) {
	return func(cfg *windlass.Config) { cfg.Pulls = types }
}

// returns fails the test unless f returns within an hour, and passes on its error.
func (c *cluster) returns(what string, f func(context.Context) error) error {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	select {
	case err := <-ended:
		c.t.Logf("%s: %v", what, err)
		return err
	case <-time.After(time.Hour):
		c.t.Errorf("%s has not returned after an hour", what)
		return nil
	}
}

func TestDequeue_CompleteAfterTheIncarnationIsOverReturns(t *testing.T) {
	inVerifiedWith(t, windlasstest.Options{AllowOverlaps: true}, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "", pulling("t"))
		w.job("a_t")
		d := w.dequeue(n, "t")
		n.Partition()
		w.Advance(time.Minute)
		n.Heal()
		w.Advance(time.Minute)
		if err := w.returns("Complete", d.Complete); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("Complete: %v; the context of the task: %v", err, context.Cause(d.Context()))
		}
	})
}

func TestDequeue_CompleteReturnsWhileTheBrokerIsAway(t *testing.T) {
	for _, away := range []struct{ begin, end func(*windlasstest.Node) }{
		{(*windlasstest.Node).Partition, (*windlasstest.Node).Heal}, {(*windlasstest.Node).Freeze, (*windlasstest.Node).Thaw},
	} {
		inVerified(t, func(t *testing.T, w *cluster) {
			n := w.joinFaulty("n", "", pulling("t"))
			w.job("a_t")
			d := w.dequeue(n, "t")
			away.begin(n)
			_ = w.returns("Complete", d.Complete)
			away.end(n)
			w.Advance(time.Minute)
		})
	}
}

func TestDequeue_CompleteAfterRunHasReturnedReturns(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", pulling("t"))
		c.job("a_t")
		d := c.dequeue(n, "t")
		t.Log(n.Stop())
		_ = c.returns("Complete", d.Complete)
		_ = c.returns("Release", d.Release)
	})
}

func TestDequeue_TryDequeueReturnsOnAFrozenNode(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", pulling("t"))
		c.Advance(time.Second)
		c.send("n", operate.Freeze, "")
		c.Advance(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.TryDequeue(ctx, "t"); !errors.Is(err, windlass.ErrEmpty) {
			t.Errorf("TryDequeue: %v", err)
		}
	})
}

func TestDequeue_TryDequeueReturnsWhileTheBrokerIsAway(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "", pulling("t"))
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
		c.join("a-pusher", handlers(map[string]run{"t": untilStopped}))
		c.Advance(time.Second)
		c.submit(20, windlass.Spec{Type: "t"})
		c.Advance(20 * time.Second)
		c.join("b-both", alsoPulling("t"))
		c.Advance(10 * time.Minute)
		if n := c.moves(nil); n != 20 {
			t.Errorf("%d starts of 20 tasks that only one node runs", n)
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
				c.job("a_t", func(s *windlass.Submission) { s.Spec.Node, s.Spec.Require = spec.Node, spec.Require })
				c.Advance(time.Second)
				if d, err := n.TryDequeue(t.Context(), "t"); err == nil {
					t.Errorf("%s was dequeued on n", d.ID())
					_ = d.Release(t.Context())
				}
			})
		})
	}
}

func TestDequeue_TheTallyCountsNoPulledClaims(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		ctx := t.Context()
		hold := make(chan struct{})
		var slow atomic.Bool
		n := w.joinFaulty("n", "", alsoPulling("t"), holding(1), intercept(func(m *interceptor) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				results := m.Coordinator.Claim(ctx, wanted)
				if slow.CompareAndSwap(true, false) {
					<-hold
				}
				return results
			}
		}))
		w.Advance(time.Second)
		slow.Store(true)
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
		w.must(d.Complete(ctx))
		w.Advance(time.Second)
		w.Submit(windlass.Submission{ID: "h"})
		w.Advance(time.Minute)
		if w.startsOf("h") != 1 {
			t.Errorf("the node holds nothing and has capacity for one; h is %s", w.status("h"))
		}
	})
}
