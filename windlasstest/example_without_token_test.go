package windlasstest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// A handler that sends an invoice by mail. It has two faults, and it takes both
// to do harm: rendering does not end with the context, and the mail server knows
// nothing of tokens.
func invoice(send func(id string)) windlass.NewHandler {
	return windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
		<-time.After(30 * time.Second) // rendering
		send(claim.ID())
		return nil
	})
}

// The kit shows what comes of it when its node loses touch. With AllowOverlaps
// left out, this test would fail at its end, with the overlap and what led to it.
func TestInvoice_IsSentTwice(t *testing.T) {
	windlasstest.TestWith(t, windlasstest.Options{AllowOverlaps: true}, func(t *testing.T, c *windlasstest.Cluster) {
		var sent atomic.Int32
		config := windlass.Config{Handlers: map[string]windlass.NewHandler{"invoice": invoice(func(string) { sent.Add(1) })}}
		c.Start("a", config)
		c.Start("b", config)
		c.Submit(windlass.Submission{ID: "invoice-7", Spec: windlass.Spec{Type: "invoice"}})
		c.Settle(time.Minute)
		c.Holder("invoice-7").Partition()
		c.WaitFor(2*time.Minute, "invoice-7", windlass.StatusCompleted)

		if overlaps := c.Overlaps(); len(overlaps) != 1 || sent.Load() != 2 {
			t.Errorf("sent %d times, with the overlaps %v", sent.Load(), overlaps)
		}
	})
}
