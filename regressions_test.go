package windlass_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// What the simulation has found, each as the shortest story that shows it.

// A drain that was ended left its next step due for ever, and the loop was woken
// for it without pause.
func TestCommand_M34_ADrainThatIsEndedLeavesNothingDue(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "", w.slowToStop(3*time.Second))
		w.submit(3, windlass.Spec{})
		w.eventually(time.Minute, "all run", w.allRunning(3))
		w.command("n", windlass.CommandDrain)
		w.sleep(time.Second)
		w.command("n", windlass.CommandUnfreeze)
		w.sleep(2 * time.Minute) // which would not pass
		w.eventually(time.Minute, "all run again", w.allRunning(3))
		if n.Frozen() || w.startsOf("task-000") != 2 {
			t.Errorf("frozen: %t, started %d times", n.Frozen(), w.startsOf("task-000"))
		}
	})
}

// A deletion whose request came late deleted the task that had been submitted
// since under the same ID.
func TestDelete_M21_OneThatComesLateSparesATaskThatWasSubmittedSince(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.joins("n", "")
		ids := w.submit(1, windlass.Spec{})
		w.settles(time.Minute, ids)
		client := w.clientBehind("late 20s on commit call 2")
		if err := client.Delete(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		w.eventually(time.Second, "it is stopped", w.allRunning(0))
		if err := client.Submit(t.Context(), windlass.Submission{ID: ids[0]}); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
		w.settles(0, ids)
	})
}

// A deletion took the claim away while the handler ran, and whoever claimed the
// next task of that ID ran it beside.
func TestDelete_M21_ATaskOfTheSameIDWaitsUntilTheHandlerHasReturned(t *testing.T) {
	for _, plan := range []string{"", "stall on batch\nrefuse on list,watch"} {
		inWorld(t, func(t *testing.T, w *world) {
			slow := w.joins("slow", "", w.slowToStop(5*time.Second))
			ids := w.submit(2, windlass.Spec{})
			w.settles(time.Minute, ids)
			w.joins("other", "", func(cfg *windlass.Config) { cfg.Balancer = oneAtATime{} })
			w.sleep(30 * time.Second)
			slow.use(t, plan) // the node learns of nothing
			id := slow.Tasks()[0].ID
			kv, _ := w.holderOf(id)
			for range 2 {
				if err := w.client.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if err := w.client.Submit(t.Context(), windlass.Submission{ID: id}); err != nil {
					t.Fatal(err)
				}
				w.sleep(time.Second)
				if now, held := w.holderOf(id); !held || now.Created != kv.Created {
					t.Error("the claim was taken away while the handler ran")
				}
			}
			slow.use(t, "")
			slow.faults.Thaw()
			w.settles(time.Minute, ids)
			if got := w.causesOf(id); len(got) > 0 && !errors.Is(got[0], windlass.ErrDeleted) {
				t.Errorf("it was stopped for %v", got[0])
			}
		})
	}
}

// What an old run says after its task was deleted concerned the task that had
// been submitted since: it was completed without having run.
func TestDelete_M21_WhatARunEndsWithIsNotSaidOfATaskThatWasSubmittedSince(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return 5 * time.Second }
		n := w.joins("n", "")
		ids := w.submit(1, windlass.Spec{})
		w.eventually(time.Minute, "it runs", w.allRunning(1))
		n.use(t, "stall on batch\nrefuse on list,watch")
		if err := w.client.Delete(t.Context(), ids[0]); err != nil {
			t.Fatal(err)
		}
		if err := w.client.Submit(t.Context(), windlass.Submission{ID: ids[0]}); err != nil {
			t.Fatal(err)
		}
		w.sleep(8 * time.Second)
		if status := w.status(ids[0]); status == windlass.StatusCompleted {
			t.Errorf("the new task is %s and has not run", status)
		}
		n.use(t, "")
		n.faults.Thaw()
		w.eventually(time.Minute, "it has run", func() bool { return w.startsOf(ids[0]) == 2 && w.status(ids[0]) == windlass.StatusCompleted })
	})
}

// A session whose clock began anew, because the broker was away, outlived what a
// node of the same name was willing to wait for.
func TestNode_M04_WaitsLongerForADeadHolderOfItsNameWhenTheBrokerWasAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		dead := w.joins("n", "")
		w.sleep(time.Second)
		kv, err := w.store.Get(t.Context(), "/test/nodes/n/info")
		if err != nil {
			t.Fatal(err)
		}
		dead.faults.Cut()
		w.sleep(time.Second)
		next := w.joins("n", "")
		for range 4 {
			w.sleep(8 * time.Second)
			// As after a change of leader: the session gets all of its TTL again.
			next.faults.Cut()
			if _, err := w.store.KeepAlive(t.Context(), kv.Session); err != nil {
				t.Fatal(err)
			}
			w.sleep(time.Second)
			next.faults.Heal()
		}
		w.sleep(30 * time.Second)
		select {
		case <-next.ended:
			t.Fatalf("it gave up: %v", next.err)
		default:
		}
		w.settles(time.Minute, w.submit(1, windlass.Spec{}))
		_ = dead.leave() // it waits for the name by now
		_ = next.leave()
	})
}

// A task that nobody else took once was never moved again, however long others
// were ready for it.
func TestNode_M17_WhatNobodyTookIsOfferedAgainLater(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.joins("a", "")
		b := w.joins("b", "")
		w.sleep(time.Second)
		b.use(t, `lose-request 1s on commit below "/test/tasks/"`) // it lives, and claims nothing
		w.submit(20, windlass.Spec{})
		w.eventually(time.Minute, "a has taken all", func() bool { return w.runningOn("a") == 20 })
		w.sleep(5 * time.Second)
		b.use(t, "")
		w.eventually(10*time.Minute, "b is offered some again, and takes its share", func() bool { return w.runningOn("b") >= 8 })
	})
}

// A context that the caller gives up leaves nothing half done.
func TestDelete_M21_AnUnansweredDeletionSaysThatItMayHaveHappened(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
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
