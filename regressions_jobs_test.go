package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestConcurrency_Z13_ARefusedClaimLeavesItsRoomToOthers(t *testing.T) {
	for _, refused := range []string{`refuse on commit below "/test/tasks/"`, `refuse on commit below "/test/tasks/" call 1`, `refuse on commit below "/test/tasks/" call 2`} {
		t.Run(refused, func(t *testing.T) {
			windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
				n := c.Start("n1", windlass.Config{
					Handlers:    map[string]windlass.NewHandler{"t": windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil })},
					Concurrency: map[string]int{"t": 1},
				})
				c.Advance(5 * time.Second)
				n.Use(refused)
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

func TestJobs_Z10_AnUpdateIsNewerThanWhatWaitedForARunThatWasLost(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		var seen []string
		handlers := map[string]windlass.NewHandler{"t": windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
			if seen = append(seen, string(claim.Props())); len(seen) == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})}
		n := c.Start("n1", windlass.Config{Handlers: handlers})
		submit := func(props string, update, requeue bool, want windlass.Effect) {
			s := windlass.Submission{ID: "x", Spec: windlass.Spec{Type: "t"}, Props: json.RawMessage(props), Update: update, Requeue: requeue}
			if effects, errs := c.Client().Enqueue(t.Context(), []windlass.Submission{s}); errs[0] != nil || effects[0] != want {
				t.Fatalf("submit %s: %v, %v", props, effects, errs)
			}
		}
		submit("1", false, false, windlass.EffectCreated)
		c.WaitFor(time.Minute, "x", windlass.StatusRunning)
		submit("2", true, true, windlass.EffectRequeued)
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		submit("3", true, true, windlass.EffectUpdated)
		c.Start("n2", windlass.Config{Handlers: handlers})
		c.WaitFor(time.Minute, "x", windlass.StatusCompleted)
		if want := []string{"1", "3"}; !slices.Equal(seen, want) {
			t.Errorf("the runs saw %q, want %q", seen, want)
		}
	})
}
