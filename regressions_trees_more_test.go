package windlass_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

func TestRegression_AnEndingThatIsRetriedDoesNotSlowDownTheOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var once sync.Once
		n := c.join("n", func(cfg *windlass.Config) { cfg.Pulls = []string{"u"} }, meddle(func(m *meddler) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				for _, e := range endings {
					if e.Kind == coordinator.Done && e.ID == "a_t" {
						once.Do(func() {
							if _, err := c.client.SendTask(ctx, "a_t", statemachine.Command{Message: statemachine.Kill}); err != nil {
								t.Error(err)
							}
						})
					}
				}
				return m.Coordinator.End(ctx, endings)
			}
		}))
		c.job("a_t")
		c.eventually(10*time.Second, "it runs", c.hasStatus("a_t", windlass.StatusRunning))
		if _, errs := c.client.Enqueue(ctx, []windlass.Submission{requeueOf("a_t")}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if _, err := c.client.SendTask(ctx, "a_t", statemachine.Command{Message: statemachine.Kill}); err != nil {
			t.Fatal(err)
		}
		c.sleep(5 * time.Second)
		for i := range 10 {
			c.job(string(rune('a'+i)) + "_u")
		}
		began := time.Now()
		for range 10 {
			d, err := n.Dequeue(ctx, "u")
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Complete(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ten jobs took %v", took)
		}
	})
}

func TestRegression_ARequeueWhoseAnswerIsLostIsNoConflict(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		n := 0
		w.finite = func(string) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 1 {
				return 5 * time.Second
			}
			return 10 * time.Second
		}
		m := w.joins("n", "")
		_ = m
		w.sleep(time.Second)
		w.submitted(w.client, "a", 1)
		w.sleep(4 * time.Second)
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 3`)
		_, errs := client.Enqueue(t.Context(), []windlass.Submission{{ID: "a-0", Requeue: true}})
		w.sleep(2 * time.Minute)
		if n := w.startsOf("a-0"); n != 2 || errs[0] != nil {
			t.Errorf("%d starts, want 2; %v", n, errs)
		}
	})
}

func TestRegression_OfTwoDetachedEndingsAtTheSameTimeOneWins(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		for range 20 {
			c.job("a_t", func(s *windlass.Submission) { s.Rerun = true })
			d := c.detach("t", "a_t")
			var ends sync.WaitGroup
			errs := make([]error, 3)
			ends.Go(func() { errs[0] = c.client.CompleteDetached(ctx, "a_t", d.Token, nil) })
			ends.Go(func() { errs[1] = c.client.FailDetached(ctx, "a_t", d.Token, windlass.Permanent(errors.New("x"))) })
			ends.Go(func() { errs[2] = c.client.CompleteDetached(ctx, "a_t", d.Token, nil) })
			ends.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
				} else if !errors.Is(err, windlass.ErrFenced) {
					t.Error(err)
				}
			}
			if s := c.status("a_t"); won != 1 || (errs[1] == nil) != (s == windlass.StatusFailed) {
				t.Errorf("%v, and it is %s", errs, s)
			}
		}
	})
}
