package windlass_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

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

func TestRegression_CompleteAfterTheIncarnationIsOverReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.forgive()
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.faults.Cut()
		w.sleep(time.Minute)
		n.faults.Heal()
		w.sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err, back := within(w.cluster, time.Hour, func() error { return d.Complete(ctx) })
		if !back {
			t.Errorf("Complete has not returned after an hour; the context of the task: %v", context.Cause(d.Context()))
		} else if !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("Complete: %v", err)
		}
	})
}

func TestRegression_CompleteWhileTheBrokerIsAwayReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.faults.Cut()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err, back := within(w.cluster, time.Hour, func() error { return d.Complete(ctx) })
		if !back {
			t.Errorf("Complete has not returned after an hour")
		} else {
			t.Logf("Complete: %v", err)
		}
		n.faults.Heal()
		w.sleep(time.Minute)
	})
}

func TestRegression_CompleteWhileTheBrokerIsSilentReturns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		n.faults.Freeze()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err, back := within(w.cluster, time.Hour, func() error { return d.Complete(ctx) })
		if !back {
			t.Errorf("Complete has not returned after an hour")
		} else {
			t.Logf("Complete: %v", err)
		}
		n.faults.Thaw()
		w.sleep(time.Minute)
	})
}

func TestRegression_CompleteAfterRunHasReturnedReturns(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", pulling("t"))
		c.job("a_t")
		d, err := n.Dequeue(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(n.leave())
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

func TestRegression_TryDequeueReturnsOnAFrozenNode(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		n := c.join("n", pulling("t"))
		c.sleep(time.Second)
		if err := c.client.Send(t.Context(), "n", windlass.Command{Command: windlass.CommandFreeze}); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.TryDequeue(ctx, "t"); !errors.Is(err, windlass.ErrEmpty) {
			t.Errorf("TryDequeue: %v", err)
		}
	})
}

func TestRegression_TryDequeueReturnsWhileTheBrokerIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "", pulling("t"))
		w.sleep(time.Second)
		n.faults.Cut()
		w.sleep(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := n.TryDequeue(ctx, "t"); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("TryDequeue: %v", err)
		}
		n.faults.Heal()
		w.sleep(time.Minute)
	})
}

func TestRegression_TasksOfATypeThatANodePullsAreNotMovedToIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a-pusher", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": c.untilStopped}))
		c.sleep(time.Second)
		ids := c.submit(20, windlass.Spec{Type: "t"})
		c.sleep(20 * time.Second)
		c.join("b-both", func(cfg *windlass.Config) { cfg.Pulls = []string{"t"} })
		c.sleep(10 * time.Minute)
		starts := 0
		for _, id := range ids {
			starts += c.startsOf(id)
		}
		if starts != 20 {
			t.Errorf("%d starts of 20 tasks that only one node runs", starts)
		}
	})
}
