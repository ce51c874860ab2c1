package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// Regression: a deletion that conflicted with another change reported that the task was gone.
func TestDelete_M21_SaysThatItIsDoneOnlyWhenTheTaskIsGone(t *testing.T) {
	for plan, meanwhile := range map[string]func(w *cluster){
		"lose-request 2s on commit call 2":  func(w *cluster) { w.delete("/test/tasks/a-0/owner") },
		"delay-request 2s on commit call 2": func(w *cluster) { w.delete("/test/tasks/a-0/owner") }, // a claim of no session
		"delay-request 3s on commit call 2": func(w *cluster) { w.put("/test/tasks/a-0/props", "{}") },
	} {
		inVerified(t, func(t *testing.T, w *cluster) {
			w.submitted(w.client, "a", 1)
			w.put("/test/tasks/a-0/owner", "old")
			client := w.clientBehind(plan)
			var other sync.WaitGroup
			other.Go(func() {
				<-time.After(time.Second)
				meanwhile(w)
			})
			err := client.Delete(t.Context(), "a-0")
			other.Wait()
			if _, gone := w.store.Get(t.Context(), "/test/tasks/a-0"); err != nil || gone == nil {
				t.Errorf("%s: Delete returned %v, and then there is %v", plan, err, gone)
			}
		})
	}
}

// Regression: a late request deleted the task that had meanwhile been submitted under the ID.
func TestDelete_M21_OneThatComesLateSparesATaskThatWasSubmittedSince(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.joinFaulty("n", "")
		ids := w.submit(1, windlass.Spec{})
		w.settles(time.Minute, ids)
		client := w.clientBehind("late 20s on commit call 2")
		w.must(client.Delete(t.Context(), ids[0]))
		w.WaitUntil(time.Second, "it is stopped", w.allRunning(0))
		w.must(client.Submit(t.Context(), windlass.Submission{ID: ids[0]}))
		w.Advance(time.Minute)
		w.settles(0, ids)
	})
}

// Regression: a deletion removed the claim while the handler ran. The next task of that ID was
// then run at the same time.
func TestDelete_M21_ATaskOfTheSameIDWaitsUntilTheHandlerHasReturned(t *testing.T) {
	for _, plan := range []string{"", "stall on batch\nrefuse on list,watch"} {
		inVerified(t, func(t *testing.T, w *cluster) {
			slow := w.joinFaulty("slow", "", w.slowToStop(5*time.Second))
			ids := w.submit(2, windlass.Spec{})
			w.settles(time.Minute, ids)
			w.joinFaulty("other", "", claimingIf(claimOneAtATime))
			w.Advance(30 * time.Second)
			slow.Use(plan) // the node learns of nothing
			id := slow.Tasks()[0].ID
			kv, _ := w.holderOf(id)
			for range 2 {
				w.remove(id)
				w.Submit(windlass.Submission{ID: id})
				w.Advance(time.Second)
				if now, held := w.holderOf(id); !held || now.Created != kv.Created {
					t.Error("the claim was taken away while the handler ran")
				}
			}
			slow.Use("")
			slow.Thaw()
			w.settles(time.Minute, ids)
			if got := w.causesOf(id); len(got) > 0 && !errors.Is(got[0], windlass.ErrDeleted) {
				t.Errorf("it was stopped for %v", got[0])
			}
		})
	}
}

// Regression: the outcome of a run of a deleted task was applied to the task submitted since,
// which was completed without having run.
func TestDelete_M21_WhatARunEndsWithIsNotSaidOfATaskThatWasSubmittedSince(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.takes = func(string) time.Duration { return 5 * time.Second }
		n := w.joinFaulty("n", "")
		ids := w.submit(1, windlass.Spec{})
		w.WaitUntil(time.Minute, "it runs", w.allRunning(1))
		n.Use("stall on batch\nrefuse on list,watch")
		w.remove(ids[0])
		w.Submit(windlass.Submission{ID: ids[0]})
		w.Advance(8 * time.Second)
		if status := w.status(ids[0]); status == windlass.StatusCompleted {
			t.Errorf("the new task is %s and has not run", status)
		}
		n.Use("")
		n.Thaw()
		w.WaitUntil(time.Minute, "it has run", func() bool { return w.startsOf(ids[0]) == 2 && w.status(ids[0]) == windlass.StatusCompleted })
	})
}

// A caller whose context ends learns that the deletion may have been applied.
func TestDelete_M21_AnUnansweredDeletionSaysThatItMayHaveHappened(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		ids := w.submit(1, windlass.Spec{})
		client := w.clientBehind("lose-reply 1h on commit call 2")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := client.Delete(ctx, ids[0]); !broker.MaybeApplied(err) {
			t.Errorf("%v", err)
		}
		if err := client.Delete(t.Context(), ids[0]); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("again: %v", err)
		}
	})
}

// Regression: an attempt that may have been applied was forgotten once the next was refused.
func TestClient_M21_WhatMayHaveHappenedIsNotForgottenForAnErrorThatCameLater(t *testing.T) {
	for name, try := range map[string]struct {
		write  int // which of its calls writes
		change func(ctx context.Context, client *windlass.Client) error
	}{
		"delete": {2, func(ctx context.Context, client *windlass.Client) error { return client.Delete(ctx, "a") }},
		"submit": {1, func(ctx context.Context, client *windlass.Client) error {
			return client.Submit(ctx, windlass.Submission{ID: "b"})
		}},
	} {
		inVerified(t, func(t *testing.T, w *cluster) {
			w.Submit(windlass.Submission{ID: "a"})
			plan := fmt.Sprintf("lose-reply 1s on commit call %d", try.write)
			for call := try.write + 1; call < 20; call++ {
				plan += fmt.Sprintf("\nrefuse on commit call %d", call)
			}
			if err := try.change(t.Context(), w.clientBehind(plan)); !broker.MaybeApplied(err) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

func TestDelete_M21_RemovesTheTaskStopsItsHandlerAndLeavesItsStateAndItsSiblings(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n", also("fails", failingOnce))
		for _, id := range []string{"a", "ab", "a|b", "a-1"} {
			c.Submit(windlass.Submission{ID: id, Props: json.RawMessage("1")})
		}
		c.Submit(windlass.Submission{ID: "failing", Spec: windlass.Spec{Type: "fails"}})
		c.WaitUntil(time.Second, "they run", c.allRunning(3)) // a|b waits for a
		c.remove("a")
		c.WaitUntil(time.Second, "the handler was told", func() bool { return len(c.causesOf("a")) == 1 })
		if cause := c.causesOf("a")[0]; !errors.Is(cause, windlass.ErrDeleted) {
			t.Errorf("cause %v", cause)
		}
		c.WaitUntil(time.Second, "its child runs", c.allRunning(3))
		if c.startsOf("ab") != 1 || c.startsOf("a-1") != 1 {
			t.Error("a sibling was disturbed")
		}
		if err := c.client.Delete(t.Context(), "a"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		c.WaitFor(time.Second, "failing", windlass.StatusSleeping)
		c.remove("failing")
		if _, err := c.store.Get(t.Context(), "/test/state/failing"); err != nil {
			t.Errorf("its state: %v", err)
		}
		c.WaitUntil(time.Second, "the node lets it go", func() bool { return len(n.Tasks()) == 3 })
		// What a deleted task left behind does not keep its ID from being used.
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "failing"}); err != nil {
			t.Errorf("the ID again: %v", err)
		}
		c.WaitUntil(5*time.Second, "it runs afresh", c.allRunning(4))
	})
}

// Many are deleted in few requests, of which any may go wrong; each has its own answer.
func TestDelete_M21_ManyAtOnceHaveEachTheirAnswer(t *testing.T) {
	for _, plan := range []string{
		"", "lose-reply 2s on commit call 2", "lose-request 2s on commit call 2", "late 3s on commit call 2",
		"seed 5\nlose-reply 1s on commit chance 0.2\nlose-request 1s on commit chance 0.2",
	} {
		inVerified(t, func(t *testing.T, w *cluster) {
			w.joinFaulty("n", "", also("ends", done))
			w.Submit(windlass.Submission{ID: "ended", Spec: windlass.Spec{Type: "ends"}})
			w.Submit(windlass.Submission{ID: "later", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
			w.Submit(windlass.Submission{ID: "stays"})
			held := w.submit(1200, windlass.Spec{})
			w.WaitFor(time.Minute, "ended", windlass.StatusCompleted)
			client := w.clientBehind(plan)
			ids := append(held, "ended", "later", "nobody", "a/b", held[0])
			for i, err := range client.DeleteAll(windlass.WithCaller(t.Context(), "ann"), ids...) {
				_, bad := errors.AsType[*windlass.BadInputError](err)
				switch id := ids[i]; {
				case id == "a/b" && bad, id == "later" && err == nil, i < len(held) && err == nil:
				case (id == "ended" || id == "nobody" || i == len(ids)-1) && errors.Is(err, windlass.ErrNotFound):
				case i == len(ids)-1 && err == nil && plan != "": // it was one of the two
				default:
					t.Errorf("%q: %s: %v", plan, id, err)
				}
			}
			live, err := w.client.Tasks(t.Context(), windlass.Filter{})
			w.must(err)
			if len(live) != 2 || live[0].ID != "ended" || live[1].ID != "stays" {
				t.Errorf("%q: %d tasks are left: %.200v", plan, len(live), live)
			}
		})
	}
}
