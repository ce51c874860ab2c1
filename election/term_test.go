package election

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestLead_TheFunctionHasTheCallersValuesAndDeadlineAndTheTermsEnd(t *testing.T) {
	inCluster(t, func(c *cluster) {
		type key struct{}
		e := c.member("foo").election("e")
		c.check(e.Start())
		deadline := time.Now().Add(time.Hour)
		caller, cancel := context.WithDeadline(context.WithValue(c.Context(), key{}, "value"), deadline)
		defer cancel()
		causes, led := make(chan error, 2), make(chan error, 1)
		go func() {
			led <- e.Lead(caller, func(ctx context.Context, _ Term) error {
				if got, ok := ctx.Deadline(); !ok || !got.Equal(deadline) || ctx.Value(key{}) != "value" {
					c.Errorf("the deadline is %v (%t), the value %v", got, ok, ctx.Value(key{}))
				}
				below, done := context.WithTimeout(ctx, 2*time.Hour) // what hangs on it ends with it, for the same cause
				defer done()
				<-below.Done()
				causes <- context.Cause(below)
				return ctx.Err()
			})
		}()
		c.sleep(time.Second)
		c.check(e.Resign(c.Context()))
		if err := <-causes; !errors.Is(err, ErrResigned) {
			c.Errorf("a term that was resigned ends for %v", err)
		}
		c.sleep(time.Second) // it leads again
		cancel()
		if err := <-causes; !errors.Is(err, context.Canceled) {
			c.Errorf("a call that was cancelled ends for %v", err)
		}
		if err := <-led; !errors.Is(err, context.Canceled) {
			c.Errorf("Lead returns %v", err)
		}
	})
}
