package windlass_test

import (
	"errors"
	"testing"

	"github.com/windlass-go/windlass/tree"
)

func TestRegression_Z09_AJobThatSleepsAndThatNobodyHoldsIsPending(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.job("a_t")
		d := c.detach("t", "a_t")
		if err := c.client.FailDetached(ctx, "a_t", d.Token, errors.New("first")); err != nil {
			t.Fatal(err)
		}
		jobs, err := tree.New(c.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		pending, err := jobs.Pending(ctx)
		if err != nil || len(pending) != 1 {
			t.Errorf("pending: %v, %v", pending, err)
		}
		working, err := jobs.Working(ctx)
		if err != nil || len(working) != 0 {
			t.Errorf("working: %d of them, held by node %q, %v", len(working), working[0].Node, err)
		}
	})
}
