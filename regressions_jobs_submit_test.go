package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

func TestRegression_OneSubmissionWhoseAnswerIsLostRunsATaskOnce(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run("", func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.finite = func(string) time.Duration { return 100 * time.Millisecond }
				w.joins("n", "")
				w.sleep(time.Second)
				call := "call 1"
				want := 1
				if before {
					w.submitted(w.client, "a", 1)
					w.sleep(time.Second)
					call, want = "call 3", 2
				}
				client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" ` + call)
				effects, errs := client.Enqueue(t.Context(), []windlass.Submission{{ID: "a-0", Rerun: true, Update: true, Requeue: true}})
				w.sleep(time.Minute)
				if n := w.startsOf("a-0"); n != want {
					t.Errorf("ended before: %t: %d starts, want %d; %v, %v", before, n, want, effects, errs)
				}
			})
		})
	}
}

func TestRegression_AnUpdateThatComesLateDoesNotUndoALaterOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		update := func(props string) windlass.Submission {
			return windlass.Submission{ID: "a-0", Props: json.RawMessage(props), Update: true}
		}
		w.submitted(w.client, "a", 1)
		client := w.clientBehind(`late 20s on commit below "/test/tasks/" call 3`)
		if err := client.Submit(ctx, update(`1`)); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Submit(ctx, update(`2`)); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		d, err := w.client.Task(ctx, "a-0")
		if err != nil || string(d.Props) != `2` {
			t.Errorf("the last update said 2, and it is %s, %v", d.Props, err)
		}
	})
}

func TestRegression_ARequeueThatComesLateDoesNotUndoALaterOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
		if err := w.client.Submit(ctx, again(`2`)); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
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

func TestRegression_AnUpdateAfterARequeueIsTheLastWord(t *testing.T) {
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
		c.sleep(time.Second)
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
			c.sleep(time.Second)
		}
		if seen[len(seen)-1] != "2" {
			t.Errorf("it ran with %q, and what was submitted last is 2", seen)
		}
	})
}

func TestRegression_ASkipIsForTheFailureThatItWasMadeFor(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		hold := make(chan struct{})
		var once sync.Once
		held := make(chan struct{})
		c.join("skipper", handlers(map[string]func(context.Context, *windlass.Claim) error{"ok": done}), meddle(func(m *meddler) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				for _, w := range wanted {
					if w.Skipped != "" {
						once.Do(func() { close(held); <-hold }) // the request is slow
					}
				}
				return m.Coordinator.Claim(ctx, wanted)
			}
		}))
		c.join("failer", handlers(map[string]func(context.Context, *windlass.Claim) error{"fail": failing}))
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure = windlass.FailureSkips })
		c.job("a_fail|b_ok")
		c.sleep(time.Second)
		<-held
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure, s.Rerun = windlass.FailureBlocks, true })
		c.eventually(10*time.Second, "it fails again", c.hasStatus("a_fail", windlass.StatusFailed))
		close(hold)
		c.sleep(10 * time.Second)
		if got := c.status("a_fail|b_ok"); got != windlass.StatusBlocked {
			t.Errorf("it is %s although the failure blocks", got)
		}
		_ = ctx
	})
}

func TestRegression_WhatIsPulledIsSkippedThoughNobodyAsksForIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("n", handlers(map[string]func(context.Context, *windlass.Claim) error{"fail": failing}), func(cfg *windlass.Config) { cfg.Pulls = []string{"t"} })
		c.job("a_fail", func(s *windlass.Submission) { s.Spec.OnFailure = windlass.FailureSkips })
		c.job("a_fail|b_t")
		c.sleep(time.Minute)
		if got := c.status("a_fail|b_t"); got != windlass.StatusKilled {
			t.Errorf("it is %s", got)
		}
	})
}

func TestRegression_TryDequeueFindsATaskThatHasJustBeenUpdated(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", pulling("t"))
		c.job("a_t")
		c.sleep(time.Second)
		for range 20 {
			c.job("a_t", func(s *windlass.Submission) { s.Update = true })
			d, err := n.TryDequeue(ctx, "t")
			if err != nil {
				t.Fatalf("it was there for a second: %v", err)
			}
			if err := d.Release(ctx); err != nil {
				t.Fatal(err)
			}
			c.sleep(time.Second)
		}
	})
}

func TestRegression_ARefusalAfterAnAttemptOfUnknownOutcomeSaysThatItMayYetBeApplied(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.submitted(w.client, "a", 1)
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 1`)
		err := client.Submit(t.Context(), windlass.Submission{ID: "a-0", Spec: windlass.Spec{Priority: 1}})
		if !errors.Is(err, windlass.ErrExists) || !broker.MaybeApplied(err) {
			t.Errorf("%v", err)
		}
	})
}
