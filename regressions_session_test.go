package windlass_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// sluggish is a balancer that holds up its node's loop half of the time.
type sluggish struct{ windlass.Planner }

func (sluggish) ReviewEvery() time.Duration { return time.Second }

func (sluggish) Balance(v *windlass.View) []string {
	if v.Trigger == windlass.TriggerReview {
		time.Sleep(500 * time.Millisecond)
	}
	return nil
}

// A handler that returned because its session was lost had failed, if the node's
// loop heard of its return before it heard of the session: which it does when it
// is busy at that moment.
func TestNode_M55_ALostSessionIsNoErrorOfTheTaskWhateverIsHeardOfFirst(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		var nodes []*windlasstest.Node
		for i := range 20 {
			nodes = append(nodes, c.Start(fmt.Sprintf("n%02d", i), windlass.Config{
				Balancer: sluggish{},
				Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(
					func(ctx context.Context, _ *windlass.Claim) error {
						<-ctx.Done()
						return ctx.Err()
					})},
			}))
		}
		var ids []string
		for i := range 60 {
			id := fmt.Sprint("t-", i)
			ids = append(ids, id)
			c.Submit(windlass.Submission{ID: id})
		}
		c.Advance(10 * time.Second)
		for i, n := range nodes {
			c.Advance(time.Duration(i%7) * 100 * time.Millisecond) // at different points of their steps
			n.Use("lose-request 1s on keepalive")                  // everything else arrives, what the node writes about its tasks as well
		}
		c.Advance(30 * time.Second)
		for _, n := range nodes {
			n.Use("")
		}
		c.Advance(2 * time.Minute)
		for _, id := range ids {
			task, err := c.Client().Task(t.Context(), id)
			if err != nil || task.Status != windlass.StatusRunning || len(task.Errors) > 0 {
				t.Errorf("%s is %s after the errors %v (%v)", id, task.Status, task.Errors, err)
			}
		}
	})
}
