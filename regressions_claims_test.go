package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// What a review of the claims has found, each as the shortest story that shows
// it.

// errUnanswered is a call whose outcome is unknown.
func errUnanswered() error {
	return &broker.Error{Op: "commit", Kind: broker.ErrUnavailable, Cause: errors.New("no answer came"), Maybe: true}
}

// replace deletes a task and submits it anew with needs.
func (w *world) replace(id string, needs ...string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Submit(w.t.Context(), windlass.Submission{ID: id, Spec: windlass.Spec{Needs: needs}}); err != nil {
		w.t.Fatal(err)
	}
}

// A claim on the way was granted for the task that had been submitted since,
// which waits for another.
func TestClaim_M11_ATaskThatWasReplacedOnTheWayIsNotClaimedForTheOneThatWas(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "")
		w.submitted(w.client, "blocker", 1)
		w.sleep(5 * time.Second)
		n.use(t, `delay-request 3s on commit below "/test/tasks/"`)
		w.submitted(w.client, "a", 1)
		w.sleep(time.Second)
		w.replace("a-0", "blocker-0")
		w.sleep(time.Minute)
		if n := w.startsOf("a-0"); n != 0 {
			t.Errorf("it is blocked, and started %d times", n)
		}
	})
}

// unansweredClaims loses the answers to claims on a task, after a while.
func unansweredClaims(id string, after time.Duration) func(*windlass.Config) {
	return meddle(func(m *meddler) {
		m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
			results := m.Coordinator.Claim(ctx, wanted)
			for i := range wanted {
				if wanted[i].ID == id {
					<-time.After(after)
					results[i] = coordinator.Result{Err: errUnanswered()}
				}
			}
			return results
		}
	})
}

// A claim that turned up late was adopted for the task that had been submitted
// since.
func TestClaim_M12_AClaimIsNotAdoptedForATaskThatWasSubmittedSince(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.joins("n", "", unansweredClaims("a-0", 3*time.Second))
		w.submitted(w.client, "blocker", 1)
		w.sleep(5 * time.Second)
		w.submitted(w.client, "a", 1)
		w.sleep(time.Second)
		w.replace("a-0", "blocker-0")
		w.sleep(time.Minute)
		if n := w.startsOf("a-0"); n != 0 {
			t.Errorf("it is blocked, and started %d times", n)
		}
	})
}

// A claim whose outcome was unknown, on a task that was deleted meanwhile, was
// held for ever with nobody behind it.
func TestClaim_M12_AClaimOnATaskThatWasDeletedIsGivenUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.joins("n", "", unansweredClaims("a-0", 3*time.Second))
		w.sleep(time.Second)
		w.submitted(w.client, "a", 1)
		w.sleep(time.Second)
		if err := w.client.Delete(t.Context(), "a-0"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		if kv, held := w.holderOf("a-0"); held {
			t.Errorf("%s is held by %s, and nobody is behind it", kv.Key, kv.Value)
		}
	})
}

func TestClaim_M12_AClaimOnADeletedTaskIsAskedAboutUntilThereIsAnAnswer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var failed atomic.Bool
		lost := unansweredClaims("a-0", 0)
		w.joins("n", "", func(cfg *windlass.Config) {
			lost(cfg)
			inner := cfg.Coordinator
			cfg.Coordinator = func(plain coordinator.Coordinator) coordinator.Coordinator {
				m := inner(plain).(*meddler)
				m.adopt = func(ctx context.Context, ids []string) []coordinator.Result {
					if failed.CompareAndSwap(false, true) {
						w.delete("/test/tasks/a-0")
						<-time.After(time.Second)
						return []coordinator.Result{{Err: errUnanswered()}}
					}
					return plain.Adopt(ctx, ids)
				}
				return m
			}
		})
		w.sleep(time.Second)
		w.submitted(w.client, "a", 1)
		w.sleep(time.Minute)
		if kv, held := w.holderOf("a-0"); held || !failed.Load() {
			t.Errorf("%s is held by %s; asked in vain: %t", kv.Key, kv.Value, failed.Load())
		}
	})
}

// A deletion that was refused for something beside the task said that the task
// was gone.
func TestDelete_M21_SaysThatItIsDoneOnlyWhenTheTaskIsGone(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"a claim of no session goes": func(w *world) { w.delete("/test/tasks/a-0/owner") },
		"properties come": func(w *world) {
			w.store.Commit(context.Background(), broker.Txn{Then: []broker.Op{broker.Put("/test/tasks/a-0/props", []byte("{}"))}})
		},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			w.submitted(w.client, "a", 1)
			w.store.Commit(t.Context(), broker.Txn{Then: []broker.Op{broker.Put("/test/tasks/a-0/owner", []byte("old"))}})
			client := w.clientBehind("lose-request 2s on commit call 2")
			var other sync.WaitGroup
			other.Go(func() {
				<-time.After(time.Second)
				meanwhile(w)
			})
			err := client.Delete(t.Context(), "a-0")
			other.Wait()
			if _, gone := w.store.Get(t.Context(), "/test/tasks/a-0"); err == nil && gone == nil {
				t.Errorf("%s: it is there, and Delete returned nil", name)
			}
		})
	}
}

// Tasks that only one node can run were given back every hour, each in its turn,
// so that those which take longer were never done.
func TestNode_M43_WhatOnlyOneNodeCanRunIsLeftInPeaceInTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return 5 * time.Hour }
		w.joins("a", "")
		w.joins("b", "", func(cfg *windlass.Config) {
			cfg.NewTask = func(string, json.RawMessage) windlass.Task { return nil }
		})
		w.sleep(time.Second)
		ids := w.submit(10, windlass.Spec{})
		w.sleep(12 * time.Hour)
		done, starts := 0, 0
		for _, id := range ids {
			starts += w.startsOf(id)
			if w.status(id) == windlass.StatusCompleted {
				done++
			}
		}
		t.Logf("%d starts of %d tasks", starts, len(ids))
		if done < len(ids) {
			t.Errorf("%d of %d tasks of five hours are done after twelve, with %d starts", done, len(ids), starts)
		}
	})
}

// A task that waits for the run of a deleted one of its ID was shown as running.
func TestClient_M22_ATaskThatWaitsForAnOlderRunOfItsIDIsPending(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.joins("n", "", w.slowToStop(3*time.Second))
		ids := w.submit(1, windlass.Spec{})
		w.eventually(time.Minute, "it runs", w.allRunning(1))
		w.replace(ids[0])
		if status := w.status(ids[0]); status != windlass.StatusPending {
			t.Errorf("it is %s", status)
		}
		w.eventually(time.Minute, "it runs anew", func() bool {
			return w.startsOf(ids[0]) == 2 && w.status(ids[0]) == windlass.StatusRunning
		})
	})
}

// While a claim was on its way another node released the task for somebody. A note that is
// older than the claim says nothing, and was left behind when the task ended.
func TestRegression_ANoteThatAClaimHasOvertakenGoesWithTheTask(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return 20 * time.Second }
		n := w.joins("n", "")
		w.sleep(5 * time.Second)
		other, err := w.store.Grant(t.Context(), "", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		n.use(t, `delay-request 3s on commit below "/test/tasks/"`)
		ids := w.submitted(w.client, "a", 1)
		w.sleep(time.Second)
		note := "/test/tasks/" + ids[0] + "/handover"
		if _, err := broker.CommitOne(t.Context(), w.store, broker.Txn{Then: []broker.Op{broker.PutSession(note, []byte(`{"node":"n"}`), other.ID)}}); err != nil {
			t.Fatal(err)
		}
		w.sleep(5 * time.Second)
		n.use(t, "")
		if owner, held := w.holderOf(ids[0]); !held {
			t.Fatal("nobody holds it")
		} else if kv, err := w.store.Get(t.Context(), note); err != nil || kv.Modified > owner.Created {
			t.Fatalf("the note is not older than the claim: %+v, %v", kv, err)
		}
		w.sleep(time.Minute)
		if _, held := w.holderOf(ids[0]); held {
			t.Error("the task has not ended")
		}
		if kv, err := w.store.Get(t.Context(), note); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("the note is left: %+v, %v", kv, err)
		}
	})
}
