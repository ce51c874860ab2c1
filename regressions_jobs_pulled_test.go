package windlass_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/coordinator"
)

func TestRegression_DequeueLeavesWhatMayNotRunHere(t *testing.T) {
	for name, spec := range map[string]windlass.Spec{
		"pinned": {Node: "other"}, "label": {Require: map[string]string{"gpu": "yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				n := c.join("n", pulling("t"))
				c.job("a_t", func(s *windlass.Submission) {
					s.Spec.Node, s.Spec.Require = spec.Node, spec.Require
				})
				c.sleep(time.Second)
				d, err := n.TryDequeue(t.Context(), "t")
				if err == nil {
					t.Errorf("%s was dequeued on n", d.ID())
					_ = d.Release(t.Context())
				}
			})
		})
	}
}

func TestRegression_TheTallyCountsNoPulledClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
		w.sleep(time.Second)
		holding.Store(true)
		got := make(chan *windlass.Dequeued, 1)
		go func() {
			d, _ := n.Dequeue(ctx, "t")
			got <- d
		}()
		w.job("a_t")
		w.sleep(time.Second)
		n.use(t, `compact on batch below "/test/tasks/"`)
		w.job("b_t")
		w.sleep(5 * time.Second)
		n.use(t, "")
		w.job("c_t")
		w.sleep(5 * time.Second)
		close(hold)
		d := <-got
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		if err := w.client.Submit(ctx, windlass.Submission{ID: "h"}); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		if w.startsOf("h") != 1 {
			t.Errorf("the node holds nothing and has capacity for one; h is %s", w.status("h"))
		}
	})
}
