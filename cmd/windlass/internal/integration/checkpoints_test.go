package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestProgress_AClientReadsWhatTheLastCheckpointSaved(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			for row := range 3 {
				if err := claim.Checkpoint(ctx, map[string]int{"row": row}); err != nil {
					return err
				}
			}
			return untilStopped(ctx, claim)
		}))
		if p, err := c.client.Progress(t.Context(), "t"); p != nil || err != nil {
			t.Errorf("before there is any: %s, %v", p, err)
		}
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitUntil(time.Second, "all three were saved", func() bool {
			p, err := c.client.Progress(t.Context(), "t")
			return err == nil && string(p) == `{"row":2}`
		})
	})
}

func TestProgress_WhatIsNotJSONIsAnError(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.put("/test/progress/t", "{")
		if p, err := c.client.Progress(t.Context(), "t"); err == nil {
			t.Errorf("it was read as %s", p)
		}
		var wrong *windlass.BadInputError
		if _, err := c.client.Progress(t.Context(), "a/b"); !errors.As(err, &wrong) {
			t.Errorf("of an ID that cannot be: %v", err)
		}
	})
}

func TestCheckpoint_M54_ProgressThatCannotBeReadFailsNoTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", withFaults(`refuse on get below "/test/progress/"`), running(func(ctx context.Context, claim *windlass.Claim) error {
			_, err := claim.Progress(ctx)
			return err
		}))
		c.submit(1, windlass.Spec{})
		c.Advance(time.Hour)
		c.wantStatus("task-000", windlass.StatusRunning)
	})
}

// The first checkpoint retries until its context ends, because the broker is away. The second
// waits for it, but only as long as its own context allows.
func TestCheckpoint_ACheckpointWaitsForAnotherNoLongerThanItsContext(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		took := make(chan time.Duration, 1)
		var n *windlasstest.Node
		n = c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			n.Use("refuse on commit")
			var other sync.WaitGroup
			other.Go(func() { _ = claim.Checkpoint(ctx, 1) })
			<-time.After(10 * time.Millisecond)
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			if err := claim.Checkpoint(short, 2); err == nil {
				t.Error("it was saved")
			}
			took <- time.Since(began)
			n.Use("")
			other.Wait()
			return untilStopped(ctx, claim)
		}))
		c.submit(1, windlass.Spec{})
		if d := <-took; d > 200*time.Millisecond {
			t.Errorf("it took %v with 100 ms", d)
		}
	})
}

// counting is a handler that counts seconds and saves every count.
func (c *cluster) counting(counted *[]int) run {
	return func(ctx context.Context, claim *windlass.Claim) error {
		stored, err := claim.Progress(ctx)
		if err != nil {
			return windlass.ErrRelease
		}
		n := 0
		if stored != nil {
			if err := json.Unmarshal(stored, &n); err != nil {
				return err
			}
		}
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
			}
			n++
			c.mu.Lock()
			*counted = append(*counted, n)
			c.mu.Unlock()
			if err := claim.Checkpoint(ctx, n); err != nil {
				return err
			}
		}
	}
}

func TestCheckpoint_ProgressIsFoundAgainAfterADrainAKillAndASleep(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var counted []int
		join := func(name string) *windlasstest.Node {
			return c.join(name, withFaults("lose-reply 100ms on commit chance 0.1"), running(c.counting(&counted)))
		}
		a := join("a")
		c.submit(1, windlass.Spec{})
		c.Advance(10 * time.Second)
		b := join("b")
		c.must(a.Stop())
		c.Advance(10 * time.Second)
		join("d")
		b.Freeze() // which is how the others see it die
		c.Advance(time.Minute)
		c.command("task-000", command("sleep"))
		c.Advance(2 * time.Hour)
		b.Thaw()
		c.mu.Lock()
		defer c.mu.Unlock()
		last := 0
		for i, n := range counted {
			// What was being saved when a run ended may have to be counted again.
			if n != last && n != last+1 {
				t.Fatalf("after %d runs of a second it counts on from %d with %d", i, last, n)
			}
			last = n
		}
		if last < 3500 {
			t.Errorf("counted %d", last)
		}
	})
}

func TestCheckpoint_AnOldClaimSavesNothing(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		claims := make(chan *windlass.Claim, 3)
		c.join("n", running(func(ctx context.Context, claim *windlass.Claim) error {
			claims <- claim
			return untilStopped(ctx, claim)
		}))
		c.submit(1, windlass.Spec{})
		old := <-claims
		c.must(old.Checkpoint(t.Context(), "old"))
		c.command("task-000", command("release"))
		c.WaitUntil(10*time.Second, "it runs again", c.allRunning(1))
		if err := old.Checkpoint(t.Context(), "too late"); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("the old claim: %v", err)
		}
		now := <-claims
		if p, err := now.Progress(t.Context()); err != nil || string(p) != `"old"` {
			t.Errorf("%s, %v", p, err)
		}
		var input *windlass.BadInputError
		if err := now.Checkpoint(t.Context(), strings.Repeat("x", windlass.ProgressBytesMax)); !errors.As(err, &input) || input.Field != "progress" {
			t.Errorf("too much: %v", err)
		}
		if err := now.Checkpoint(t.Context(), func() {}); err == nil {
			t.Error("a function was saved as JSON")
		}
		c.remove("task-000")
		if err := now.Checkpoint(t.Context(), 1); !errors.Is(err, windlass.ErrDeleted) && !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("of a deleted task: %v", err)
		}
		if p, err := c.client.Progress(t.Context(), "task-000"); err != nil || p != nil {
			t.Errorf("a deleted task left the progress %s, %v", p, err)
		}
	})
}

// TestCheckpoint_ManyShareRequests saves the progress of many tasks at once.
func TestCheckpoint_ManyShareRequests(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		const tasks = 500
		var together sync.WaitGroup
		together.Add(tasks)
		counted := &countedBroker{}
		c.join("n", func(cfg *windlass.Config) {
			// What one call is under way for, in virtual time, the others wait for.
			counted.Broker, counted.takes = cfg.Broker, 100*time.Millisecond
			cfg.Broker = counted
		}, running(func(ctx context.Context, claim *windlass.Claim) error {
			together.Done()
			together.Wait()
			if err := claim.Checkpoint(ctx, claim.ID()); err != nil {
				t.Error(err)
			}
			return untilStopped(ctx, claim)
		}))
		c.submit(tasks, windlass.Spec{})
		c.WaitUntil(time.Minute, "all have saved", func() bool {
			p, err := c.client.Progress(t.Context(), fmt.Sprintf("task-%03d", tasks-1))
			return err == nil && p != nil
		})
		c.Advance(time.Second)
		if n := counted.commits.Load(); n > 40 {
			t.Errorf("%d calls for %d tasks", n, tasks)
		}
	})
}
