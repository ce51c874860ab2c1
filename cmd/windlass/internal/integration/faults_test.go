package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/simulation"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestFaults_M10_M11_M12_M13_M16_EveryTaskRunsAndOnOneNodeOnly(t *testing.T) {
	for i, plan := range simulation.Plans {
		t.Run(fmt.Sprintf("%d %s", i, plan), func(t *testing.T) {
			inVerified(t, func(t *testing.T, w *cluster) {
				plan := fmt.Sprintf("seed %d\n%s", i+1, plan)
				w.takes = finiteSome
				client := w.clientBehind(plan)
				nodes := []*windlasstest.Node{w.joinFaulty("a", plan), w.joinFaulty("b", plan), w.joinFaulty("c", plan)}
				var ids []string
				for step := range 12 {
					ids = append(ids, w.submitted(client, fmt.Sprintf("step%02d", step), 5)...)
					w.Advance(5 * time.Second)
					switch step {
					case 4:
						nodes = append(nodes, w.joinFaulty("d", plan))
					case 8:
						start := time.Now()
						_ = nodes[0].Stop() // an error says that its handlers are late, which settles finds out
						if took := time.Since(start); took > 15*time.Second {
							t.Errorf("leaving took %v", took)
						}
					}
				}
				for _, n := range nodes {
					n.Use("")
					n.Thaw()
				}
				if len(ids) < 20 {
					t.Errorf("only %d submissions were acknowledged", len(ids))
				}
				w.settles(3*time.Minute, ids)
			})
		})
	}
}

func TestNode_M15_ARevokedSessionAndDeletedOwnersAreNoticedAtOnceAndRepaired(t *testing.T) {
	for _, what := range []string{"session", "owners", "owner while its release is lost", "registration"} {
		// But for a registration, the store is told to break its promise.
		options := windlasstest.Options{AllowOverlaps: what != "registration"}
		inVerifiedWith(t, options, func(t *testing.T, w *cluster) {
			plan := ""
			if what == "owner while its release is lost" {
				plan = `lose-reply 300ms on commit below "/test/tasks/" chance 0.5`
			}
			nodes := []*windlasstest.Node{w.joinFaulty("a", plan), w.joinFaulty("b", plan), w.joinFaulty("c", plan)}
			w.Advance(time.Second)
			ids := w.submit(12, windlass.Spec{})
			w.settles(time.Minute, ids)
			for i := range 20 {
				id := ids[i%len(ids)]
				kv, held := w.holderOf(id)
				if !held {
					continue
				}
				told := len(w.causesOf(id))
				switch what {
				case "session":
					w.must(w.store.Revoke(t.Context(), kv.Session))
				case "registration":
					w.delete("/test/nodes/" + nodes[i%3].Name() + "/info")
				default:
					w.delete(kv.Key)
				}
				w.Advance(10 * time.Millisecond)
				if what != "registration" && len(w.causesOf(id)) != told+1 {
					t.Fatalf("%s: the handler of %s was not told", what, id)
				}
				w.Advance(time.Duration(i) * 400 * time.Millisecond)
			}
			for _, n := range nodes {
				n.Use("")
			}
			w.settles(time.Minute, ids)
		})
	}
}

func TestClaim_M13_ACompletionThatArrivesAfterTheSessionWasLostChangesNothing(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.takes = func(string) time.Duration { return 5 * time.Second }
		w.joinFaulty("a", "late 30s on commit below \"/test/state/task-\"\nlate 30s on keepalive")
		ids := w.submit(10, windlass.Spec{})
		w.Advance(2 * time.Second)
		w.joinFaulty("b", "")
		w.settles(2*time.Minute, ids)
		w.Advance(time.Minute)
	})
}

func TestNode_M13_EndingsThatWaitForACallInFlightDoNotSpin(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		var calls atomic.Int32
		w.takes = func(id string) time.Duration { return time.Duration(1+id[len(id)-1]-'0') * time.Second }
		w.joinFaulty("n", "", intercept(func(m *interceptor) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				if calls.Add(1) == 1 {
					return []coordinator.Ended{{Err: broker.NewError("commit", "", broker.ErrUnavailable, nil)}}
				}
				<-time.After(5 * time.Second)
				return m.Coordinator.End(ctx, endings)
			}
		}))
		w.settles(time.Minute, w.submit(9, windlass.Spec{}))
		w.WaitUntil(time.Minute, "all are done", w.allRunning(0))
	})
}

func TestNode_M12_AClaimThatIsOursWhileTheBrokerIsAwayIsNotAskedAboutInALoop(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "delay-reply 3s on commit below \"/test/tasks/\"")
		w.Advance(time.Second)
		ids := w.submit(3, windlass.Spec{})
		w.Advance(time.Second) // the claims are applied, and the watch has said so
		n.Partition()
		w.Advance(5 * time.Second)
		n.Use("")
		n.Heal()
		w.settles(time.Minute, ids)
	})
}

func TestMirror_M10_AHistoryThatIsCompactedAgainAndAgainIsNotListedInALoop(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "compact on watch")
		w.settles(time.Minute, w.submit(3, windlass.Spec{})) // by listing alone
		if struck := n.Faults().Struck()[0]; struck > 100 {
			t.Errorf("listed %d times", struck)
		}
	})
}

func TestNode_M35_ACandidateIsLookedAtAgainWhenTheLoadFallsRightAfterItWasRefused(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.takes = func(string) time.Duration { return 50 * time.Millisecond }
		w.joinFaulty("n", "", claimingIf(claimOneAtATime))
		ids := w.submit(10, windlass.Spec{})
		took := w.WaitUntil(time.Hour, "all are done", func() bool { return w.settled(ids) == "" && w.startsOf("task-009") == 1 })
		if took > 5*time.Second {
			t.Errorf("ten tasks of 50ms took %v", took)
		}
	})
}

func TestClaim_M12_AnOldAnswerAboutAClaimDoesNotRunTheTaskAgain(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.takes = func(string) time.Duration { return time.Second }
		var claims, adopts atomic.Int32
		w.joinFaulty("n", "", intercept(func(m *interceptor) {
			m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
				results := m.Coordinator.Claim(ctx, wanted)
				if claims.Add(1) == 1 { // it was granted, and nobody says so
					results[0] = coordinator.Result{Err: broker.NewError("commit", "", broker.ErrUnavailable, nil)}
				}
				return results
			}
			m.adopt = func(ctx context.Context, ids []string) []coordinator.Result {
				results := m.Coordinator.Adopt(ctx, ids)
				<-time.After(time.Duration(adopts.Add(1)) * 10 * time.Second)
				return results
			}
		}))
		ids := w.submit(1, windlass.Spec{})
		w.Advance(2 * time.Minute)
		w.settles(0, ids)
		if n := w.startsOf(ids[0]); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

func TestClaim_M15_ATaskThatIsDeletedBeforeTheReplyToItsClaimNeverRuns(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "delay-reply 4s on commit below \"/test/tasks/\"")
		w.Advance(time.Second)
		w.submit(1, windlass.Spec{})
		w.Advance(time.Second)
		w.remove("task-000")
		w.Advance(30 * time.Second)
		if n := w.startsOf("task-000"); n != 0 {
			t.Errorf("it ran %d times after it was deleted", n)
		}
		n.Use("")
		w.settles(time.Minute, w.submit(1, windlass.Spec{}))
	})
}

func TestMirror_M10_AClaimThatCameAndWentUnseenLeavesTheTaskClaimable(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		var runs atomic.Int32
		n := w.joinFaulty("n", "", running(func(ctx context.Context, claim *windlass.Claim) error {
			if runs.Add(1) == 1 {
				return windlass.ErrRelease
			}
			return w.work(ctx, claim)
		}))
		ids := w.submit(1, windlass.Spec{NotBefore: time.Now().Add(5 * time.Second)})
		w.Advance(time.Second)
		n.Use("break on batch\nrefuse on list,watch")
		w.Advance(20 * time.Second) // it was claimed, run and released, and no watch has told
		n.Use("")
		w.settles(20*time.Second, ids)
	})
}

func TestCommand_M33_AModeThatCannotBePublishedIsNotTriedInALoop(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "")
		w.Advance(time.Second)
		n.Use("refuse on commit")
		w.send("n", operate.Freeze, "")
		w.Advance(10 * time.Second)
		n.Use("")
		w.WaitUntil(10*time.Second, "the mode is there for all to see", func() bool { return w.shownFrozen("n") })
	})
}

func TestCommand_M33_AnOlderModeThatIsAppliedLateDoesNotHideTheNewer(t *testing.T) {
	for _, plan := range []string{"late 3s on commit below \"/test/nodes/n/info\" call 1", "delay-request 3s on commit call 1"} {
		inVerified(t, func(t *testing.T, w *cluster) {
			n := w.joinFaulty("n", "")
			w.Advance(time.Second)
			n.Use(plan)
			w.send("n", operate.Freeze, "")
			w.Advance(100 * time.Millisecond)
			w.send("n", operate.Unfreeze, "")
			w.Advance(20 * time.Second)
			if w.shownFrozen("n") || n.Frozen() {
				t.Errorf("%s: shown as frozen: %t, frozen: %t", plan, w.shownFrozen("n"), n.Frozen())
			}
		})
	}
}

func TestNode_M06_ACorruptTaskThatIsMendedRuns(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.joinFaulty("n", "")
		for i, spec := range []string{"{", "{}"} {
			w.put("/test/tasks/a", spec)
			w.Advance(10 * time.Second)
			if n := w.startsOf("a"); n != i {
				t.Errorf("with %s it ran %d times", spec, n)
			}
		}
	})
}

func TestClaim_M12_AReleaseThatIsRefusedForNowIsTriedAgain(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		var refused atomic.Int32
		w.joinFaulty("n", "", intercept(func(m *interceptor) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				if refused.Add(1) > 3 {
					return m.Coordinator.End(ctx, endings)
				}
				err := broker.NewError("commit", "", broker.ErrPermission, errors.New("the token is being renewed"))
				return slices.Repeat([]coordinator.Ended{{Err: err}}, len(endings))
			}
		}))
		ids := w.submit(1, windlass.Spec{})
		w.WaitUntil(time.Minute, "it runs", w.allRunning(1))
		w.send("n", operate.StopTask, `{"task":"task-000"}`)
		w.WaitUntil(20*time.Second, "it was released and runs again", func() bool { return w.startsOf(ids[0]) == 2 })
	})
}

func TestNode_AnEndingThatIsRetriedDoesNotSlowDownTheOthers(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		n := c.join("n", alsoPulling("u"), c.killBeforeDone())
		c.job("a_t")
		c.WaitFor(10*time.Second, "a_t", windlass.StatusRunning)
		c.job("a_t", again)
		c.sendTask("a_t", statemachine.Kill)
		c.Advance(5 * time.Second)
		for i := range 10 {
			c.job(string(rune('a'+i)) + "_u")
		}
		began := time.Now()
		for range 10 {
			d := c.dequeue(n, "u")
			c.must(d.Complete(ctx))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ten jobs took %v", took)
		}
	})
}
