package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

func TestRequeue_ARequeueThatComesLateDoesNotUndoALaterOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		ctx := t.Context()
		var seen []string
		n := w.joins("n", "", pulling("t"))
		w.job("a_t")
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		again := func(props string) windlass.Submission {
			return windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Props: json.RawMessage(props), Requeue: true}
		}
		client := w.clientBehind(`late 20s on commit below "/test/tasks/" call 3`)
		if err := client.Submit(ctx, again(`1`)); err != nil {
			t.Fatal(err)
		}
		w.Submit(again(`2`))
		w.Advance(time.Minute)
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		d, err = n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, string(d.Props()))
		if err := d.Complete(ctx); err != nil {
			t.Error(err)
		}
		if !slices.Equal(seen, []string{"2"}) {
			t.Errorf("the later one said 2, it ran with %q", seen)
		}
	})
}

func TestRequeue_AnUpdateAfterARequeueIsTheLastWord(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var seen []string
		n := c.join("n", pulling("t"))
		c.job("a_t")
		sub := func(props string) windlass.Effect {
			t.Helper()
			effects, errs := c.client.Enqueue(ctx, []windlass.Submission{{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true},
				Props: json.RawMessage(props), Update: true, Requeue: true}})
			if errs[0] != nil {
				t.Fatal(errs[0])
			}
			return effects[0]
		}
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(sub(`1`))
		if err := d.Release(ctx); err != nil { // it could be a crash of the node
			t.Fatal(err)
		}
		c.Advance(time.Second)
		t.Log(sub(`2`))
		for range 2 {
			waiting, cancel := context.WithTimeout(ctx, time.Minute)
			d, err := n.Dequeue(waiting, "t")
			cancel()
			if err != nil {
				break
			}
			seen = append(seen, string(d.Props()))
			if err := d.Complete(ctx); err != nil {
				t.Fatal(err)
			}
			c.Advance(time.Second)
		}
		if seen[len(seen)-1] != "2" {
			t.Errorf("it ran with %q, and what was submitted last is 2", seen)
		}
	})
}

func TestRequeue_AMarkThatIsLeftAloneCanBeForgotten(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.join("n", handlers(map[string]func(context.Context, *windlass.Claim) error{"fail": failing, "ok": done}))
		c.job("a_fail")
		c.job("a_fail|b_ok")
		c.WaitUntil(time.Minute, "it fails", c.hasStatus("a_fail", windlass.StatusFailed))
		c.Advance(time.Minute)
		c.commit(broker.Delete("/test/state/a_fail"), broker.Delete("/test/history/a_fail"))
		p, err := c.client.Prune(ctx, windlass.Retention{Age: time.Millisecond, Unblock: true}, windlass.Filter{}, false)
		derr := c.client.Delete(ctx, "a_fail")
		c.Advance(time.Minute)
		if got := c.status("a_fail|b_ok"); got != windlass.StatusCompleted {
			t.Errorf("prune: %v, %v; delete: %v; what waits is %s", p, err, derr, got)
		}
	})
}

func TestRequeue_ARequeueIsForTheTaskThatItWasMadeFor(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		c.job("a_t", func(s *windlass.Submission) { s.Requeue, s.Props = true, []byte(`"old"`) })
		c.commit(broker.Delete("/test/tasks/a_t"))
		c.Advance(time.Second)
		_ = d.Release(ctx)
		c.Advance(time.Second)
		c.job("a_t", func(s *windlass.Submission) { s.Props = []byte(`"new"`) })
		c.Advance(time.Second)
		if d, err = n.Dequeue(ctx, "t"); err != nil {
			t.Fatal(err)
		}
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Second)
		if d, err := n.TryDequeue(ctx, "t"); err == nil {
			t.Errorf("it is there again, with %s", d.Props())
			_ = d.Complete(ctx)
		}
	})
}

func TestRequeue_AnUnreadableRequeue(t *testing.T) {
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
				c.commit(broker.Put("/test/tasks/a_t/requeue", []byte(value)))
				if err := d.Complete(ctx); err != nil {
					t.Error(err)
				}
				c.Advance(time.Second)
				t.Log(c.status("a_t"))
				if got := c.status("a_t"); got != windlass.StatusCompleted {
					t.Errorf("it is %s", got)
				}
			})
		})
	}
}

func TestRequeue_ARequeueMakesNoCycle(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.Advance(time.Second)
		sub := func(s windlass.Submission) error {
			s.Spec.Type = "t"
			return c.client.Submit(ctx, s)
		}
		if err := sub(windlass.Submission{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		d, err := n.Dequeue(ctx, "t")
		if err != nil {
			t.Fatal(err)
		}
		err1 := sub(windlass.Submission{ID: "a", Spec: windlass.Spec{Needs: []string{"b"}}, Requeue: true})
		err2 := sub(windlass.Submission{ID: "b", Spec: windlass.Spec{Needs: []string{"a"}}})
		if err := d.Complete(ctx); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Minute)
		if err1 == nil && err2 == nil {
			t.Errorf("neither was refused; a is %s and b is %s", c.status("a"), c.status("b"))
		}
	})
}

func requeueOf(id string) windlass.Submission {
	return windlass.Submission{ID: id, Spec: windlass.Spec{Type: id[strings.LastIndex(id, "_")+1:], Job: true}, Update: true, Requeue: true, Rerun: true}
}

func TestRequeue_ASecondKillDoesNotWedgeAJobThatIsToRunAgain(t *testing.T) {
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
		c.WaitUntil(10*time.Second, "it runs", c.hasStatus("a_t", windlass.StatusRunning))
		if _, errs := c.client.Enqueue(ctx, []windlass.Submission{requeueOf("a_t")}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if _, err := c.client.SendTask(ctx, "a_t", statemachine.Command{Message: statemachine.Kill}); err != nil {
			t.Fatal(err)
		}
		c.Advance(10 * time.Minute)
		if n := c.startsOf("a_t"); n != 2 {
			t.Errorf("%d starts, want 2; %d attempts at its ending; it is %s", n, tries.Load(), c.status("a_t"))
		}
	})
}

func TestRequeue_ALostClaimIsGivenUpThoughTheTaskIsToRunAgain(t *testing.T) {
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

func TestRequeue_ARequeueWhoseAnswerIsLostRunsATaskOnceMore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		var mu sync.Mutex
		n := 0
		w.takes = func(string) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 1 {
				return 5 * time.Second
			}
			return 10 * time.Second
		}
		w.joins("n", "")
		w.Advance(time.Second)
		w.submitted(w.client, "a", 1)
		w.Advance(4 * time.Second) // it runs for another second
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 3`)
		effects, errs := client.Enqueue(t.Context(), []windlass.Submission{{ID: "a-0", Rerun: true, Update: true, Requeue: true}})
		w.Advance(2 * time.Minute)
		if n := w.startsOf("a-0"); n != 2 {
			t.Errorf("%d starts, want 2; %v, %v", n, effects, errs)
		}
	})
}

func TestRequeue_ARequeueWhoseAnswerIsLostIsNoConflict(t *testing.T) {
	inWorld(t, func(t *testing.T, w *cluster) {
		var mu sync.Mutex
		n := 0
		w.takes = func(string) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == 1 {
				return 5 * time.Second
			}
			return 10 * time.Second
		}
		m := w.joins("n", "")
		_ = m
		w.Advance(time.Second)
		w.submitted(w.client, "a", 1)
		w.Advance(4 * time.Second)
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 3`)
		_, errs := client.Enqueue(t.Context(), []windlass.Submission{{ID: "a-0", Requeue: true}})
		w.Advance(2 * time.Minute)
		if n := w.startsOf("a-0"); n != 2 || errs[0] != nil {
			t.Errorf("%d starts, want 2; %v", n, errs)
		}
	})
}

func TestRequeue_WhatIsRequeuedStandsInLineAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		c.Advance(time.Second)
		c.job("b_t")
		var order []string
		for range 5 {
			d, err := n.Dequeue(ctx, "t")
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, d.ID())
			if d.ID() == "a_t" {
				c.job("a_t", func(s *windlass.Submission) { s.Requeue = true })
			}
			if err := d.Complete(ctx); err != nil {
				t.Fatal(err)
			}
			c.Advance(time.Second)
		}
		if order[1] != "b_t" {
			t.Errorf("they were dequeued in the order %q; b was submitted before a was again", order)
		}
	})
}

func TestRequeue_AHandlerGetsTheTaskAsItWasUpdated(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var got []string
		proceed := make(chan struct{})
		c.join("n", func(cfg *windlass.Config) {
			cfg.NewTask = func(id string, props json.RawMessage) windlass.Task { return updatable{id, string(props)} }
		}, handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(_ context.Context, claim *windlass.Claim) error {
			if claim.ID() == "a_t" {
				<-proceed
				return nil
			}
			got = append(got, claim.Task().(updatable).props, string(claim.Props()))
			return nil
		}}))
		set := func(props string) func(*windlass.Submission) {
			return func(s *windlass.Submission) { s.Props, s.Update = json.RawMessage(props), true }
		}
		c.job("a_t")
		c.Advance(time.Second)
		c.job("a_t|b_t", set(`1`))
		c.Advance(time.Second)
		c.job("a_t|b_t", set(`2`))
		c.Advance(time.Second)
		close(proceed)
		c.WaitUntil(time.Minute, "it runs", c.hasStatus("a_t|b_t", windlass.StatusCompleted))
		if got[0] != "2" || got[1] != "2" {
			t.Errorf("the task says %s, the properties say %s", got[0], got[1])
		}
	})
}

type updatable struct{ id, props string }

func (r updatable) ID() string { return r.id }
