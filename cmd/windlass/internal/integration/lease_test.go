package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/statemachine"
)

func TestLease_OfTwoEndingsAtTheSameTimeOneWins(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		for range 20 {
			c.job("a_t", func(s *windlass.Submission) { s.Rerun = true })
			d := c.detach("t", "a_t")
			var ends sync.WaitGroup
			errs := make([]error, 3)
			ends.Go(func() { errs[0] = lease.New(c.client, nil).Complete(ctx, "a_t", d.Token, nil) })
			ends.Go(func() {
				errs[1] = lease.New(c.client, nil).Fail(ctx, "a_t", d.Token, windlass.Permanent(errors.New("x")))
			})
			ends.Go(func() { errs[2] = lease.New(c.client, nil).Complete(ctx, "a_t", d.Token, nil) })
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

// detach dequeues a task that must be there.
func (c *cluster) detach(taskType, want string) lease.Lease {
	c.t.Helper()
	d, err := lease.New(c.client, nil).Dequeue(c.t.Context(), taskType, "script", time.Minute)
	if err != nil || d.ID != want {
		c.t.Fatalf("dequeued %q, %v, want %s", d.ID, err, want)
	}
	return d
}

func TestLease_Z07_Z08_TakesTheNextJobOfItsTypeAndEndsIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		empty := func(when string) {
			t.Helper()
			if d, err := lease.New(c.client, nil).Dequeue(ctx, "t", "script", 0); !errors.Is(err, windlass.ErrEmpty) {
				t.Errorf("%s: %+v, %v", when, d, err)
			}
		}
		empty("from nothing")
		c.job("z_t", func(s *windlass.Submission) { s.Props = json.RawMessage(`"z"`) })
		c.job("y_t", func(s *windlass.Submission) { s.Spec.Priority = 1 })
		c.job("z_t|x_t")
		c.job("w_u")
		c.job("later_t", func(s *windlass.Submission) { s.Spec.NotBefore = time.Now().Add(time.Hour) })
		c.job("elsewhere_t", func(s *windlass.Submission) { s.Spec.Node = "n9" })
		y, began := c.detach("t", "y_t"), time.Now()
		if y.Token == 0 || y.Owner != "script" || y.Type != "t" || y.Until.Before(began.Add(50*time.Second)) {
			t.Errorf("it is %+v", y)
		}
		z := c.detach("t", "z_t")
		if string(z.Props) != `"z"` {
			t.Errorf("its data is %s", z.Props)
		}
		empty("while its parent is worked on")
		if d := c.task("z_t"); d.Status != windlass.StatusRunning || d.Node != "script" || d.ClaimedAt == nil {
			t.Errorf("%+v", d)
		}
		if err := lease.New(c.client, nil).Release(ctx, "y_t", y.Token); err != nil {
			t.Errorf("release: %v", err)
		}
		if err := lease.New(c.client, nil).Complete(ctx, "y_t", y.Token, nil); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("complete what was released: %v", err)
		}
		again := c.detach("t", "y_t")
		if again.Token <= y.Token {
			t.Errorf("token %d after %d", again.Token, y.Token)
		}
		if err := lease.New(c.client, nil).Fail(ctx, "y_t", y.Token, errors.New("late")); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("fail with the token of an earlier claim: %v", err)
		}
		if err := lease.New(c.client, nil).Fail(ctx, "y_t", again.Token, windlass.Permanent(errors.New("broken"))); err != nil || c.status("y_t") != windlass.StatusFailed {
			t.Errorf("fail: %v, and it is %s", err, c.status("y_t"))
		}
		if err := lease.New(c.client, nil).Complete(ctx, "z_t", z.Token, json.RawMessage(`{"n":1}`)); err != nil || c.status("z_t") != windlass.StatusCompleted {
			t.Errorf("complete: %v, and it is %s", err, c.status("z_t"))
		}
		if d, _ := c.client.Task(ctx, "z_t"); string(d.Result) != `{"n":1}` || d.Node != "script" || d.Token != z.Token {
			t.Errorf("it left %+v", d)
		}
		if h, err := inspect.New(c.client).History(ctx, "z_t"); err != nil || len(h.Entries) != 2 || h.Entries[0].Node != "script" {
			t.Errorf("its history is %+v, %v", h, err)
		}
		c.detach("t", "z_t|x_t")
		if err := lease.New(c.client, nil).Release(ctx, "nobody_t", 1); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("release what is not there: %v", err)
		}
	})
}

func TestLease_Z08_ALeaseThatIsOverRequeuesTheJob(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t")
		first := c.detach("t", "a_t")
		c.Advance(55 * time.Second)
		c.wantStatus("a_t", windlass.StatusRunning)
		c.Advance(20 * time.Second)
		second := c.detach("t", "a_t")
		if err := lease.New(c.client, nil).Complete(t.Context(), "a_t", first.Token, nil); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("the first one completed what it had lost: %v", err)
		}
		c.remove("a_t")
		if err := lease.New(c.client, nil).Complete(t.Context(), "a_t", second.Token, nil); !errors.Is(err, windlass.ErrFenced) {
			t.Errorf("complete what was deleted: %v", err)
		}
		c.job("a_t") // and the claim on the deleted one is not in its way
		c.detach("t", "a_t")
	})
}

func TestLease_Z08_AFailedJobSleepsAndRunsAgainUntilItFailsForGood(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		retry := &windlass.Retry{Errors: 2, Min: windlass.Duration(10 * time.Second)}
		c.job("a_t", func(s *windlass.Submission) { s.Spec.Retry, s.Spec.OnFailure = retry, windlass.FailureSkips })
		c.job("a_t|b_u")
		d := c.detach("t", "a_t")
		c.must(lease.New(c.client, nil).Fail(ctx, "a_t", d.Token, errors.New("first")))
		if info, err := c.client.Task(ctx, "a_t"); err != nil || info.Status != windlass.StatusSleeping || info.Node != "" {
			t.Fatalf("it is %+v, %v", info.TaskInfo, err)
		}
		if _, h := c.historyOf("a_t"); !slices.ContainsFunc(h.Entries, func(e statemachine.HistoryEntry) bool {
			return strings.HasPrefix(e.Detail, "until ") && strings.HasSuffix(e.Detail, ", after an error: first")
		}) {
			t.Errorf("its history is %+v", h.Entries)
		}
		if _, err := lease.New(c.client, nil).Dequeue(ctx, "t", "script", 0); !errors.Is(err, windlass.ErrEmpty) {
			t.Errorf("while it sleeps: %v", err)
		}
		c.Advance(11 * time.Second)
		d = c.detach("t", "a_t")
		if info, err := c.client.Task(ctx, "a_t"); err != nil || info.Status != windlass.StatusRunning || info.Until != nil {
			t.Errorf("once it is taken again it is %+v, %v", info.TaskInfo, err)
		}
		c.must(lease.New(c.client, nil).Fail(ctx, "a_t", d.Token, errors.New("second")))
		if info := c.task("a_t"); info.Status != windlass.StatusFailed || len(info.Errors) != 2 || info.Errors[1].Error != "second" {
			t.Fatalf("it is %+v", info.TaskInfo)
		}
		c.join("n1", handlers(map[string]run{"u": done}))
		c.WaitFor(5*time.Second, "a_t|b_u", windlass.StatusKilled)
	})
}

func TestLease_Z08_ANodeHoldsWhatSleepsAndRunsItAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t", func(s *windlass.Submission) { s.Spec.Retry = &windlass.Retry{Min: windlass.Duration(10 * time.Second)} })
		d := c.detach("t", "a_t")
		c.join("n1", handlers(map[string]run{"t": done}))
		c.must(lease.New(c.client, nil).Fail(t.Context(), "a_t", d.Token, errors.New("first")))
		c.WaitUntil(5*time.Second, "a node holds it", func() bool {
			info, err := c.client.Task(t.Context(), "a_t")
			return err == nil && info.Status == windlass.StatusSleeping && info.Node == "n1"
		})
		c.WaitFor(20*time.Second, "a_t", windlass.StatusCompleted)
	})
}

func TestLease_Z10_AJobThatIsToRunAgainDoesSo(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t")
		d := c.detach("t", "a_t")
		c.job("a_t", func(s *windlass.Submission) { s.Update, s.Requeue, s.Props = true, true, json.RawMessage(`2`) })
		c.must(lease.New(c.client, nil).Complete(t.Context(), "a_t", d.Token, nil))
		if d = c.detach("t", "a_t"); string(d.Props) != `2` {
			t.Errorf("it runs again with %s", d.Props)
		}
	})
}

func TestLease_Z08_TheClaimOfANodeIsNotEndedByItsToken(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t")
		c.join("n1")
		c.WaitFor(5*time.Second, "a_t", windlass.StatusRunning)
		c.Advance(2 * time.Second)
		info := c.task("a_t")
		if err := lease.New(c.client, nil).Complete(t.Context(), "a_t", info.Token, nil); !errors.Is(err, windlass.ErrWorking) {
			t.Errorf("complete: %v", err)
		}
		if _, err := lease.New(c.client, nil).Dequeue(t.Context(), "t", "n1", 0); !errors.Is(err, windlass.ErrNameTaken) {
			t.Errorf("in the name of a node: %v", err)
		}
		c.Advance(time.Minute)
		c.wantStatus("a_t", windlass.StatusRunning)
	})
}

func TestLease_Z13_NoJobIsTakenTwice(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		const jobs = 60
		ctx := t.Context()
		for i := range jobs {
			c.job(fmt.Sprintf("%d_t", i))
		}
		taken, pushed := map[string]int{}, map[string]int{}
		c.join("pusher", handlers(map[string]run{"t": func(_ context.Context, claim *windlass.Claim) error {
			<-time.After(10 * time.Millisecond)
			c.mu.Lock()
			defer c.mu.Unlock()
			pushed[claim.ID()]++
			return nil
		}}), limit("t", 1))
		var scripts sync.WaitGroup
		for i := range 3 {
			scripts.Go(func() {
				for {
					d, err := lease.New(c.client, nil).Dequeue(ctx, "t", fmt.Sprintf("script-%d", i), 0)
					if errors.Is(err, windlass.ErrEmpty) {
						return
					}
					if err == nil {
						err = lease.New(c.client, nil).Complete(ctx, d.ID, d.Token, nil)
					}
					if err != nil {
						t.Error(err)
						return
					}
					c.mu.Lock()
					taken[d.ID]++
					c.mu.Unlock()
				}
			})
		}
		scripts.Wait()
		c.WaitUntil(time.Minute, "all complete", func() bool { return c.count(windlass.StatusCompleted) == jobs })
		if len(taken) == 0 || len(taken)+len(pushed) != jobs {
			t.Errorf("%d were taken and %d pushed", len(taken), len(pushed))
		}
	})
}

// Each round loses the reply to another call. Whatever the outcome, no claim is left without
// a holder, and what was acknowledged was applied.
func TestLease_Z08_AReplyThatIsLostIsFoundOut(t *testing.T) {
	for call := 1; call <= 12; call++ {
		inEach(t, func(t *testing.T, c *cluster) {
			ctx := t.Context()
			client := c.clientBehind(fmt.Sprintf("lose-reply 1s on commit call %d", call))
			c.job("a_t")
			d, err := lease.New(client, nil).Dequeue(ctx, "t", "script", 0)
			if err != nil {
				if !errors.Is(err, broker.ErrUnavailable) || c.status("a_t") != windlass.StatusPending {
					t.Fatalf("dequeue: %v, and it is %s", err, c.status("a_t"))
				}
				return
			}
			if err := lease.New(client, nil).Complete(ctx, d.ID, d.Token, nil); err != nil {
				if !errors.Is(err, broker.ErrUnavailable) || c.status("a_t") == windlass.StatusCompleted {
					t.Fatalf("complete: %v, and it is %s", err, c.status("a_t"))
				}
				return
			}
			c.wantStatus("a_t", windlass.StatusCompleted)
		})
	}
}

func TestLease_WhatIsNotAllowedIsRefused(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var bad *windlass.BadInputError
		for name, call := range map[string]func() error{
			"type":   func() error { _, err := lease.New(c.client, nil).Dequeue(ctx, "a/b", "script", 0); return err },
			"owner":  func() error { _, err := lease.New(c.client, nil).Dequeue(ctx, "t", "", 0); return err },
			"short":  func() error { _, err := lease.New(c.client, nil).Dequeue(ctx, "t", "script", time.Second); return err },
			"long":   func() error { _, err := lease.New(c.client, nil).Dequeue(ctx, "t", "script", time.Hour); return err },
			"ID":     func() error { return lease.New(c.client, nil).Release(ctx, "a/b", 1) },
			"result": func() error { return lease.New(c.client, nil).Complete(ctx, "a", 1, json.RawMessage(`{`)) },
			"size": func() error {
				return lease.New(c.client, nil).Complete(ctx, "a", 1, make([]byte, windlass.ResultBytesMax+1))
			},
		} {
			if err := call(); !errors.As(err, &bad) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
