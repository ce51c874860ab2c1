package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

func requeueOf(id string) windlass.Submission {
	return windlass.Submission{ID: id, Spec: windlass.Spec{Type: id[strings.LastIndex(id, "_")+1:], Job: true}, Update: true, Requeue: true, Rerun: true}
}

func TestRegression_ASecondKillDoesNotWedgeAJobThatIsToRunAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var once sync.Once
		var tries atomic.Int64
		c.join("n", meddle(func(m *meddler) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				for _, e := range endings {
					if e.Kind != coordinator.Done {
						continue
					}
					tries.Add(1)
					once.Do(func() { // the request is slow, and another command overtakes it
						if _, err := c.client.SendTask(ctx, "a_t", statemachine.Command{Message: statemachine.Kill}); err != nil {
							t.Error(err)
						}
					})
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
		c.sleep(10 * time.Minute)
		if n := c.startsOf("a_t"); n != 2 {
			t.Errorf("%d starts, want 2; %d attempts at its ending; it is %s", n, tries.Load(), c.status("a_t"))
		}
	})
}

func TestRegression_ALostClaimIsGivenUpThoughTheTaskIsToRunAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var once sync.Once
		var tries atomic.Int64
		n := c.join("n", pulling("t"), meddle(func(m *meddler) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				for _, e := range endings {
					if e.Kind == coordinator.Done {
						tries.Add(1)
						once.Do(func() {
							if _, err := broker.CommitOne(ctx, c.store, broker.Txn{Then: []broker.Op{broker.Delete("/test/tasks/a_t/owner")}}); err != nil {
								t.Error(err)
							}
							c.detach("t", "a_t")
						})
					}
				}
				return m.Coordinator.End(ctx, endings)
			}
		}))
		c.job("a_t")
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		if _, errs := c.client.Enqueue(ctx, []windlass.Submission{requeueOf("a_t")}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := d.Complete(waiting); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("complete what was lost: %v, after %d attempts", err, tries.Load())
		}
	})
}

func TestRegression_ARequeueWhoseAnswerIsLostRunsATaskOnceMore(t *testing.T) {
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
		w.joins("n", "")
		w.sleep(time.Second)
		w.submitted(w.client, "a", 1)
		w.sleep(4 * time.Second) // it runs for another second
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 3`)
		effects, errs := client.Enqueue(t.Context(), []windlass.Submission{{ID: "a-0", Rerun: true, Update: true, Requeue: true}})
		w.sleep(2 * time.Minute)
		if n := w.startsOf("a-0"); n != 2 {
			t.Errorf("%d starts, want 2; %v, %v", n, effects, errs)
		}
	})
}

func TestRegression_AJobThatIsDequeuedAfterItSleptIsWorkedOn(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t", func(s *windlass.Submission) { s.Spec.Retry = &windlass.Retry{Min: windlass.Duration(10 * time.Second)} })
		d := c.detach("t", "a_t")
		if err := c.client.FailDetached(t.Context(), "a_t", d.Token, errors.New("first")); err != nil {
			t.Fatal(err)
		}
		c.sleep(30 * time.Second)
		c.detach("t", "a_t")
		if got := c.status("a_t"); got != windlass.StatusRunning {
			t.Errorf("while somebody works on it it is %s", got)
		}
	})
}

func TestRegression_HTMLWithinTheLimitsIsStoredAsData(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		html := json.RawMessage(`"` + strings.Repeat("<", 100<<10) + `"`)
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "plain", Spec: windlass.Spec{Type: "t"}, Props: html}); err != nil {
			t.Errorf("as a plain task: %.200v", err)
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Props: html}); err != nil {
			t.Errorf("as a job: %.200v", err)
		}
	})
}

func TestRegression_HTMLWithinTheLimitsIsStoredForAfterwards(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "plain", Spec: windlass.Spec{Type: "t"}}); err != nil {
			t.Fatal(err)
		}
		c.detach("t", "plain")
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "plain", Spec: windlass.Spec{Type: "t"}, Requeue: true,
			Props: json.RawMessage(`"` + strings.Repeat("<", 100<<10) + `"`)}); err != nil {
			t.Errorf("%.200v", err)
		}
	})
}

func TestRegression_HTMLWithinTheLimitsIsStoredAsAResult(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t")
		d := c.detach("t", "a_t")
		if err := c.client.CompleteDetached(t.Context(), "a_t", d.Token, json.RawMessage(`"`+strings.Repeat("<", 100<<10)+`"`)); err != nil {
			t.Errorf("complete: %.200v", err)
		}
	})
}

func TestRegression_AJobIsQueuedBelowOneOfTheSameCallThatWasAPlainTask(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		if err := c.client.Submit(ctx, windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t"}}); err != nil {
			t.Fatal(err)
		}
		d := c.detach("t", "a_t")
		if err := c.client.CompleteDetached(ctx, "a_t", d.Token, nil); err != nil {
			t.Fatal(err)
		}
		jobs, err := tree.New(c.store, "test")
		if err != nil {
			t.Fatal(err)
		}
		queued, err := jobs.Queue(ctx, tree.Request{Name: "a", Type: "t"}, tree.Request{Name: "b", Type: "t", Parent: "a_t"})
		if err != nil || len(queued) != 2 {
			t.Errorf("%v, %v", queued, err)
		}
	})
}
