package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	inVerified(t, func(t *testing.T, w *cluster) {
		ctx := t.Context()
		n := w.joinFaulty("n", "", pulling("t"))
		w.job("a_t")
		d := w.dequeue(n, "t")
		again := func(props string) windlass.Submission {
			return windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Props: json.RawMessage(props), Requeue: true}
		}
		client := w.clientBehind(`late 20s on commit below "/test/tasks/" call 3`)
		w.must(client.Submit(ctx, again(`1`)))
		w.Submit(again(`2`))
		w.Advance(time.Minute)
		w.must(d.Complete(ctx))
		d = w.dequeue(n, "t")
		w.must(d.Complete(ctx))
		if got := string(d.Props()); got != "2" {
			t.Errorf("the later one said 2, it ran with %s", got)
		}
	})
}

func TestRequeue_AnUpdateAfterARequeueIsTheLastWord(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var seen []string
		n := c.join("n", pulling("t"))
		c.job("a_t")
		with := func(props string) func(*windlass.Submission) {
			return func(s *windlass.Submission) { s.Props, s.Update, s.Requeue = json.RawMessage(props), true, true }
		}
		d := c.dequeue(n, "t")
		c.job("a_t", with(`1`))
		c.must(d.Release(ctx)) // it could be a crash of the node
		c.Advance(time.Second)
		c.job("a_t", with(`2`))
		for range 2 {
			waiting, cancel := context.WithTimeout(ctx, time.Minute)
			d, err := n.Dequeue(waiting, "t")
			cancel()
			if err != nil {
				break
			}
			seen = append(seen, string(d.Props()))
			c.must(d.Complete(ctx))
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
		c.join("n", handlers(map[string]run{"fail": failing, "ok": done}))
		c.job("a_fail")
		c.job("a_fail|b_ok")
		c.WaitFor(time.Minute, "a_fail", windlass.StatusFailed)
		c.Advance(time.Minute)
		c.commit(broker.Delete("/test/state/a_fail"), broker.Delete("/test/history/a_fail"))
		p, err := c.client.Prune(ctx, windlass.Retention{Age: time.Millisecond, Unblock: true}, windlass.Filter{}, false)
		t.Logf("prune: %v, %v; delete: %v", p, err, c.client.Delete(ctx, "a_fail"))
		c.Advance(time.Minute)
		c.wantStatus("a_fail|b_ok", windlass.StatusCompleted)
	})
}

func TestRequeue_ARequeueIsForTheTaskThatItWasMadeFor(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		d := c.dequeue(n, "t")
		c.job("a_t", func(s *windlass.Submission) { s.Requeue, s.Props = true, []byte(`"old"`) })
		c.delete("/test/tasks/a_t")
		c.Advance(time.Second)
		_ = d.Release(ctx)
		c.Advance(time.Second)
		c.job("a_t", func(s *windlass.Submission) { s.Props = []byte(`"new"`) })
		c.Advance(time.Second)
		d = c.dequeue(n, "t")
		c.must(d.Complete(ctx))
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
				n := c.join("n", pulling("t"))
				c.job("a_t")
				d := c.dequeue(n, "t")
				c.put("/test/tasks/a_t/requeue", value)
				c.must(d.Complete(t.Context()))
				c.Advance(time.Second)
				c.wantStatus("a_t", windlass.StatusCompleted)
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
		c.must(sub(windlass.Submission{ID: "a"}))
		d := c.dequeue(n, "t")
		err1 := sub(windlass.Submission{ID: "a", Spec: windlass.Spec{Needs: []string{"b"}}, Requeue: true})
		err2 := sub(windlass.Submission{ID: "b", Spec: windlass.Spec{Needs: []string{"a"}}})
		c.must(d.Complete(ctx))
		c.Advance(time.Minute)
		if err1 == nil && err2 == nil {
			t.Errorf("neither was refused; a is %s and b is %s", c.status("a"), c.status("b"))
		}
	})
}

// again makes a submission run the task once more, whatever its state.
func again(s *windlass.Submission) { s.Update, s.Requeue, s.Rerun = true, true, true }

// beforeDone does something just before the first request to complete task a_t.
func beforeDone(do func(ctx context.Context)) func(*windlass.Config) {
	var once sync.Once
	return intercept(func(m *interceptor) {
		m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
			if slices.ContainsFunc(endings, func(e coordinator.Ending) bool { return e.Kind == coordinator.Done && e.ID == "a_t" }) {
				once.Do(func() { do(ctx) })
			}
			return m.Coordinator.End(ctx, endings)
		}
	})
}

// killBeforeDone sends task a_t another command before it is completed.
func (c *cluster) killBeforeDone() func(*windlass.Config) {
	return beforeDone(func(ctx context.Context) {
		if _, err := c.client.SendTask(ctx, "a_t", command(statemachine.Kill)); err != nil {
			c.t.Error(err)
		}
	})
}

func TestRequeue_ASecondKillDoesNotWedgeAJobThatIsToRunAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", c.killBeforeDone())
		c.job("a_t")
		c.WaitFor(10*time.Second, "a_t", windlass.StatusRunning)
		c.job("a_t", again)
		c.sendTask("a_t", statemachine.Kill)
		c.Advance(10 * time.Minute)
		if n := c.startsOf("a_t"); n != 2 {
			t.Errorf("%d starts, want 2; it is %s", n, c.status("a_t"))
		}
	})
}

func TestRequeue_ALostClaimIsGivenUpThoughTheTaskIsToRunAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"), beforeDone(func(ctx context.Context) {
			if _, err := broker.CommitOne(ctx, c.store, broker.Txn{Then: []broker.Op{broker.Delete("/test/tasks/a_t/owner")}}); err != nil {
				t.Error(err)
			}
			c.detach("t", "a_t")
		}))
		c.job("a_t")
		d := c.dequeue(n, "t")
		c.job("a_t", again)
		waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := d.Complete(waiting); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("complete what was lost: %v", err)
		}
	})
}

func TestRequeue_ARequeueWhoseAnswerIsLostRunsATaskOnceMoreAndIsNoConflict(t *testing.T) {
	for _, submission := range []windlass.Submission{{ID: "a-0", Rerun: true, Update: true, Requeue: true}, {ID: "a-0", Requeue: true}} {
		inVerified(t, func(t *testing.T, w *cluster) {
			var runs atomic.Int32
			w.takes = func(string) time.Duration {
				if runs.Add(1) == 1 {
					return 5 * time.Second
				}
				return 10 * time.Second
			}
			w.joinFaulty("n", "")
			w.Advance(time.Second)
			w.submitted(w.client, "a", 1)
			w.Advance(4 * time.Second) // it runs for another second
			client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 3`)
			err := client.Submit(t.Context(), submission)
			w.Advance(2 * time.Minute)
			if n := w.startsOf("a-0"); n != 2 || err != nil && !submission.Rerun {
				t.Errorf("%+v: %d starts, want 2; %v", submission, n, err)
			}
		})
	}
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
			d := c.dequeue(n, "t")
			order = append(order, d.ID())
			if d.ID() == "a_t" {
				c.job("a_t", func(s *windlass.Submission) { s.Requeue = true })
			}
			c.must(d.Complete(ctx))
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
			cfg.NewTask = func(id string, props json.RawMessage) windlass.Task { return appTask{id, string(props)} }
		}, handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			if claim.ID() == "a_t" {
				<-proceed
				return nil
			}
			got = append(got, claim.Task().(appTask).props, string(claim.Props()))
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
		c.WaitFor(time.Minute, "a_t|b_t", windlass.StatusCompleted)
		if got[0] != "2" || got[1] != "2" {
			t.Errorf("the task says %s, the properties say %s", got[0], got[1])
		}
	})
}
