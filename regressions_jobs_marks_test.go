package windlass_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

func TestRegression_AClaimThatAnotherNodeWinsDoesNotWedgeItsType(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var first atomic.Bool
		c.submit(3, windlass.Spec{Type: "t"})
		c.join("n", limit(1), handlers(map[string]func(context.Context, *windlass.Claim) error{"t": done}), meddle(func(m *meddler) {
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
		c.sleep(time.Hour)
		n, err := c.client.Count(ctx, windlass.Filter{})
		if err != nil || n[windlass.StatusCompleted] != 2 {
			t.Errorf("after an hour: %v, %v", n, err)
		}
	})
}

func TestRegression_AMarkThatIsLeftAloneCanBeForgotten(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.join("n", handlers(map[string]func(context.Context, *windlass.Claim) error{"fail": failing, "ok": done}))
		c.job("a_fail")
		c.job("a_fail|b_ok")
		c.eventually(time.Minute, "it fails", c.hasStatus("a_fail", windlass.StatusFailed))
		c.sleep(time.Minute)
		if _, err := broker.CommitOne(ctx, c.store, broker.Txn{Then: []broker.Op{broker.Delete("/test/state/a_fail"), broker.Delete("/test/history/a_fail")}}); err != nil {
			t.Fatal(err)
		}
		p, err := c.client.Prune(ctx, windlass.Retention{Age: time.Millisecond, Unblock: true}, windlass.Filter{}, false)
		derr := c.client.Delete(ctx, "a_fail")
		c.sleep(time.Minute)
		if got := c.status("a_fail|b_ok"); got != windlass.StatusCompleted {
			t.Errorf("prune: %v, %v; delete: %v; what waits is %s", p, err, derr, got)
		}
	})
}

func TestRegression_ARequeueIsForTheTaskThatItWasMadeFor(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		c.job("a_t", func(s *windlass.Submission) { s.Requeue, s.Props = true, []byte(`"old"`) })
		if _, err := broker.CommitOne(ctx, c.store, broker.Txn{Then: []broker.Op{broker.Delete("/test/tasks/a_t")}}); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Second)
		_ = d.Release(ctx)
		c.sleep(time.Second)
		c.job("a_t", func(s *windlass.Submission) { s.Props = []byte(`"new"`) })
		c.sleep(time.Second)
		if d, err = n.Dequeue(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Second)
		if d, err := n.TryDequeue(ctx, "t"); err == nil {
			t.Errorf("it is there again, with %s", d.Props())
			_ = d.Complete(ctx)
		}
	})
}

func TestRegression_AnUnreadableRequeue(t *testing.T) {
	for name, value := range map[string]string{"text": "x", "null": `{"spec":null}`, "number": `{"spec":5}`, "type": `{"spec":{"needs":5}}`} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				ctx := t.Context()
				n := c.join("n", pulling("t"))
				c.job("a_t")
				d, err := n.Dequeue(ctx, "t")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := broker.CommitOne(ctx, c.store, broker.Txn{Then: []broker.Op{broker.Put("/test/tasks/a_t/requeue", []byte(value))}}); err != nil {
					t.Fatal(err)
				}
				if err := d.Complete(ctx); err != nil {
					t.Error(err)
				}
				c.sleep(time.Second)
				t.Log(c.status("a_t"))
				if got := c.status("a_t"); got != windlass.StatusCompleted {
					t.Errorf("it is %s", got)
				}
			})
		})
	}
}
