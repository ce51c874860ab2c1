package windlass_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/simulation"
	"github.com/windlass-go/windlass/session"
)

func TestFaults_M10_M11_M12_M13_M16_EveryTaskRunsAndOnOneNodeOnly(t *testing.T) {
	for i, plan := range simulation.Plans {
		t.Run(fmt.Sprintf("%d %s", i, plan), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				plan := fmt.Sprintf("seed %d\n%s", i+1, plan)
				w.finite = finiteSome
				client := w.clientBehind(plan)
				nodes := []*troubled{w.joins("a", plan), w.joins("b", plan), w.joins("c", plan)}
				var ids []string
				for step := range 12 {
					ids = append(ids, w.submitted(client, fmt.Sprintf("step%02d", step), 5)...)
					w.sleep(5 * time.Second)
					switch step {
					case 4:
						nodes = append(nodes, w.joins("d", plan))
					case 8:
						start := time.Now()
						_ = nodes[0].leave() // an error says that its handlers are late, which settles finds out
						if took := time.Since(start); took > 15*time.Second {
							t.Errorf("leaving took %v", took)
						}
					}
				}
				for _, n := range nodes {
					n.faults.Use(nil)
					n.faults.Thaw()
				}
				if len(ids) < 20 {
					t.Errorf("only %d submissions were acknowledged", len(ids))
				}
				w.settles(3*time.Minute, ids)
			})
		})
	}
}

func TestNode_M14_AFrozenNodeStopsBeforeOthersStartAndRejoins(t *testing.T) {
	for _, plan := range []string{"", `late 40s on commit chance 0.5`, `delay-reply 5s on commit chance 0.5`} {
		inWorld(t, func(t *testing.T, w *world) {
			w.finite = finiteSome
			a := w.joins("a", "")
			ids := w.submitted(w.client, "before", 20)
			w.sleep(3 * time.Second)
			w.joins("b", "")
			w.sleep(time.Second)
			a.use(t, plan)
			w.sleep(2 * time.Second)
			a.faults.Freeze()
			ids = append(ids, w.submitted(w.client, "during", 20)...)
			w.sleep(45 * time.Second)
			if n := w.runningOn("a"); n != 0 {
				t.Errorf("%d handlers run on a node that has been frozen for three TTLs", n)
			}
			w.settles(0, ids)
			a.faults.Thaw()
			w.sleep(45 * time.Second)
			a.faults.Use(nil)
			w.settles(time.Minute, ids)
			if w.runningOn("a") == 0 {
				t.Error("it did not rejoin")
			}
		})
	}
}

func TestNode_M14_ABrokerThatIsBackWithinTheTTLCostsNoTask(t *testing.T) {
	for away, keeps := range map[time.Duration]bool{6 * time.Second: true, 40 * time.Second: false} {
		inWorld(t, func(t *testing.T, w *world) {
			nodes := []*troubled{w.joins("a", ""), w.joins("b", "")}
			w.sleep(time.Second)
			ids := w.submit(10, windlass.Spec{})
			w.settles(time.Minute, ids)
			w.sleep(20 * time.Second)
			before := w.startsOf(ids[0])
			for range 3 {
				for _, n := range nodes {
					n.faults.Cut()
				}
				w.sleep(away)
				for _, n := range nodes {
					n.faults.Heal()
				}
				w.sleep(time.Second) // renewals are tried every fifth of one by now
				w.settles(time.Minute, ids)
			}
			if again := w.startsOf(ids[0]) - before; again == 0 != keeps {
				t.Errorf("away for %v three times: it started %d times more; causes %v", away, again, w.causesOf(ids[0]))
			}
		})
	}
}

// The broker was away until the nodes had given their sessions up, and remembers them
// when it is back, for longer than it takes the nodes to end them.
func TestNode_M14_SessionsThatWereLostHoldNothingUpOnceTheBrokerIsBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ttl := func(cfg *windlass.Config) {
			cfg.SessionTTL = session.TTLMax
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(w.untilStopped)
		}
		nodes := []*troubled{w.joins("a", "", ttl), w.joins("b", "", ttl)}
		ids := w.submit(10, windlass.Spec{})
		w.eventually(time.Minute, "all run", w.allRunning(len(ids)))
		w.sleep(20 * time.Second) // until nothing moves any more
		timing := session.Derive(session.TTLMax)
		for _, n := range nodes {
			n.faults.Cut()
		}
		cut := time.Now()
		w.sleep(timing.Stop + time.Second)
		if n := len(nodes[0].Tasks()) + len(nodes[1].Tasks()); n > 0 {
			t.Fatalf("%d tasks are held", n)
		}
		for _, n := range nodes {
			n.faults.Heal()
		}
		w.eventually(time.Minute, "all run again", w.allRunning(len(ids)))
		if away := time.Since(cut); away > timing.Hard-timing.Renew {
			t.Errorf("they run %v after the last renewal could be sent, when the sessions may have expired by themselves", away)
		}
	})
}

func TestNode_M14_TwoNodesOfOneNameAreNeverBothAtWork(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.joins("a", "")
		ids := w.submit(10, windlass.Spec{})
		w.settles(time.Minute, ids)
		first.faults.Freeze()
		second := w.joins("a", "")
		w.sleep(5 * time.Second)
		if n := len(second.Tasks()); n != 0 {
			t.Errorf("the second holds %d tasks while the first is registered", n)
		}
		w.sleep(30 * time.Second)
		first.faults.Thaw()
		w.sleep(time.Minute)
		w.settles(time.Minute, ids)
		if a, b := len(first.Tasks()), len(second.Tasks()); a != 0 || b != 10 {
			t.Errorf("the first holds %d tasks, the second %d", a, b)
		}
		if err := second.leave(); err != nil {
			t.Error(err)
		}
		w.settles(time.Minute, ids)
		if n := len(first.Tasks()); n != 10 {
			t.Errorf("the first holds %d tasks after the second has left", n)
		}
	})
}

func TestFence_M14_AHandlerThatIgnoresItsContextIsFencedAndNotJoinedByAnother(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		var fenced atomic.Int32
		a := w.joins("a", "", func(cfg *windlass.Config) {
			cfg.Fence = func(overdue func() []string) { fenced.Add(int32(len(overdue()))) }
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				defer w.began(claim)()
				<-release
				return nil // too late for that
			})
		})
		ids := w.submit(3, windlass.Spec{})
		w.settles(time.Minute, ids)
		a.faults.Cut()
		w.sleep(20 * time.Second)
		a.faults.Heal()
		w.sleep(2 * time.Minute) // it is the only node, and leaves them alone
		if n := fenced.Load(); n != 3 || len(a.Tasks()) != 0 || w.startsOf(ids[0]) != 1 {
			t.Errorf("%d fenced, %d held, started %d times", n, len(a.Tasks()), w.startsOf(ids[0]))
		}
		close(release)
		w.sleep(time.Minute)
		w.settles(time.Minute, ids)
		if n := w.startsOf(ids[0]); n != 2 {
			t.Errorf("started %d times", n)
		}
	})
}

func TestNode_M15_ARevokedSessionAndDeletedOwnersAreNoticedAtOnceAndRepaired(t *testing.T) {
	for _, what := range []string{"session", "owners", "owner while its release is lost", "registration"} {
		inWorld(t, func(t *testing.T, w *world) {
			plan := ""
			if what == "owner while its release is lost" {
				plan = `lose-reply 300ms on commit below "/test/tasks/" chance 0.5`
			}
			nodes := []*troubled{w.joins("a", plan), w.joins("b", plan), w.joins("c", plan)}
			w.sleep(time.Second)
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
					if err := w.store.Revoke(t.Context(), kv.Session); err != nil {
						t.Fatal(err)
					}
				case "registration":
					w.delete("/test/nodes/" + nodes[i%3].Name() + "/info")
				default:
					w.delete(kv.Key)
				}
				w.sleep(10 * time.Millisecond)
				if what != "registration" && len(w.causesOf(id)) != told+1 {
					t.Fatalf("%s: the handler of %s was not told", what, id)
				}
				w.sleep(time.Duration(i) * 400 * time.Millisecond)
			}
			for _, n := range nodes {
				n.faults.Use(nil)
			}
			w.settles(time.Minute, ids)
			if what != "registration" {
				w.forgive() // the store was told to break its promise
			}
		})
	}
}

func TestClaim_M13_ACompletionThatArrivesAfterTheSessionWasLostChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return 5 * time.Second }
		w.joins("a", "late 30s on commit below \"/test/state/task-\"\nlate 30s on keepalive")
		ids := w.submit(10, windlass.Spec{})
		w.sleep(2 * time.Second)
		w.joins("b", "")
		w.settles(2*time.Minute, ids)
		w.sleep(time.Minute)
	})
}

// A loop that looks for something to do and finds nothing spins; in virtual
// time it never ends, so that these tests then time out.
func TestNode_M16_ADrainingNodeThatIsClosedWaitsForItsHandlersWithoutSpinning(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "", w.slowToStop(3*time.Second))
		w.submit(3, windlass.Spec{})
		w.eventually(time.Minute, "all run", w.allRunning(3))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("draining: %v", err)
		}
		if err := n.leave(); err != nil {
			t.Error(err)
		}
	})
}

func TestNode_M14_AnAuditThatFallsBetweenTheTwoDeadlinesDoesNotSpin(t *testing.T) {
	for at := range 8 {
		inWorld(t, func(t *testing.T, w *world) {
			n := w.joins("n", "", w.slowToStop(3900*time.Millisecond))
			ids := w.submit(3, windlass.Spec{})
			w.eventually(time.Minute, "all run", w.allRunning(3))
			w.sleep(time.Duration(at) * time.Second)
			n.faults.Cut()
			w.sleep(20 * time.Second)
			n.faults.Heal()
			w.settles(time.Minute, ids)
		})
	}
}

func TestNode_M16_ANodeThatLosesItsSessionWhileItIsClosedEndsAtTheHardDeadline(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "", w.slowToStop(time.Minute), func(cfg *windlass.Config) {
			cfg.ShutdownGrace = 9 * time.Second
		})
		w.submit(1, windlass.Spec{})
		w.eventually(time.Minute, "it runs", w.allRunning(1))
		n.faults.Cut()
		w.sleep(4 * time.Second)
		start := time.Now()
		if err := n.leave(); !errors.Is(err, windlass.ErrAbandoned) {
			t.Errorf("closing: %v", err)
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("closing took %v", took)
		}
		w.eventually(time.Minute, "the handler returns", w.allRunning(0))
		n.faults.Heal()
	})
}

func TestNode_M13_EndingsThatWaitForACallInFlightDoNotSpin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var calls atomic.Int32
		w.finite = func(id string) time.Duration { return time.Duration(1+id[len(id)-1]-'0') * time.Second }
		w.joins("n", "", meddle(func(m *meddler) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				if calls.Add(1) == 1 {
					return []coordinator.Ended{{Err: broker.NewError("commit", "", broker.ErrUnavailable, nil)}}
				}
				<-time.After(5 * time.Second)
				return m.Coordinator.End(ctx, endings)
			}
		}))
		w.settles(time.Minute, w.submit(9, windlass.Spec{}))
		w.eventually(time.Minute, "all are done", w.allRunning(0))
	})
}

func TestNode_M12_AClaimThatIsOursWhileTheBrokerIsAwayIsNotAskedAboutInALoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "delay-reply 3s on commit below \"/test/tasks/\"")
		w.sleep(time.Second)
		ids := w.submit(3, windlass.Spec{})
		w.sleep(time.Second) // the claims are applied, and the watch has said so
		n.faults.Cut()
		w.sleep(5 * time.Second)
		n.faults.Use(nil)
		n.faults.Heal()
		w.settles(time.Minute, ids)
	})
}

func TestMirror_M10_AHistoryThatIsCompactedAgainAndAgainIsNotListedInALoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "compact on watch")
		w.settles(time.Minute, w.submit(3, windlass.Spec{})) // by listing alone
		if struck := n.faults.Struck()[0]; struck > 100 {
			t.Errorf("listed %d times", struck)
		}
	})
}

func TestNode_M35_ACandidateIsLookedAtAgainWhenTheLoadFallsRightAfterItWasRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return 50 * time.Millisecond }
		w.joins("n", "", func(cfg *windlass.Config) { cfg.Balancer = oneAtATime{} })
		ids := w.submit(10, windlass.Spec{})
		took := w.eventually(time.Hour, "all are done", func() bool { return w.settled(ids) == "" && w.startsOf("task-009") == 1 })
		if took > 5*time.Second {
			t.Errorf("ten tasks of 50ms took %v", took)
		}
	})
}

func TestClaim_M12_AnOldAnswerAboutAClaimDoesNotRunTheTaskAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return time.Second }
		var claims, adopts atomic.Int32
		w.joins("n", "", meddle(func(m *meddler) {
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
		w.sleep(2 * time.Minute)
		w.settles(0, ids)
		if n := w.startsOf(ids[0]); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

func TestClaim_M15_ATaskThatIsDeletedBeforeTheReplyToItsClaimNeverRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "delay-reply 4s on commit below \"/test/tasks/\"")
		w.sleep(time.Second)
		w.submit(1, windlass.Spec{})
		w.sleep(time.Second)
		if err := w.client.Delete(t.Context(), "task-000"); err != nil {
			t.Fatal(err)
		}
		w.sleep(30 * time.Second)
		if n := w.startsOf("task-000"); n != 0 {
			t.Errorf("it ran %d times after it was deleted", n)
		}
		n.faults.Use(nil)
		w.settles(time.Minute, w.submit(1, windlass.Spec{}))
	})
}

func TestMirror_M10_AClaimThatCameAndWentUnseenLeavesTheTaskClaimable(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var runs atomic.Int32
		n := w.joins("n", "", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				if runs.Add(1) == 1 {
					return windlass.ErrRelease
				}
				return w.work(ctx, claim)
			})
		})
		ids := w.submit(1, windlass.Spec{NotBefore: time.Now().Add(5 * time.Second)})
		w.sleep(time.Second)
		n.use(t, "break on batch\nrefuse on list,watch")
		w.sleep(20 * time.Second) // it was claimed, run and released, and no watch has told
		n.faults.Use(nil)
		w.settles(20*time.Second, ids)
	})
}

func TestCommand_M33_AModeThatCannotBePublishedIsNotTriedInALoop(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "")
		w.sleep(time.Second)
		n.use(t, "refuse on commit")
		w.command("n", windlass.CommandFreeze)
		w.sleep(10 * time.Second)
		n.use(t, "")
		w.eventually(10*time.Second, "the mode is there for all to see", func() bool { return w.shownFrozen("n") })
	})
}

func TestCommand_M33_AnOlderModeThatIsAppliedLateDoesNotHideTheNewer(t *testing.T) {
	for _, plan := range []string{"late 3s on commit below \"/test/nodes/n/info\" call 1", "delay-request 3s on commit call 1"} {
		inWorld(t, func(t *testing.T, w *world) {
			n := w.joins("n", "")
			w.sleep(time.Second)
			n.use(t, plan)
			w.command("n", windlass.CommandFreeze)
			w.sleep(100 * time.Millisecond)
			w.command("n", windlass.CommandUnfreeze)
			w.sleep(20 * time.Second)
			if w.shownFrozen("n") || n.Frozen() {
				t.Errorf("%s: shown as frozen: %t, frozen: %t", plan, w.shownFrozen("n"), n.Frozen())
			}
		})
	}
}

func TestFence_M14_SparesAHandlerThatHasReturnedWhateverBecomesOfItsTask(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.finite = func(string) time.Duration { return 20 * time.Second }
		fenced := make(chan []string, 10)
		n := w.joins("n", "", func(cfg *windlass.Config) { cfg.Fence = func(overdue func() []string) { fenced <- overdue() } })
		ids := w.submit(1, windlass.Spec{})
		w.eventually(time.Minute, "it runs", w.allRunning(1))
		w.sleep(18 * time.Second)
		n.faults.Cut() // it returns in two seconds, and that cannot be stored
		w.sleep(time.Minute)
		n.faults.Heal()
		select {
		case ids := <-fenced:
			t.Errorf("the fence was called for %q", ids)
		default:
		}
		w.settles(time.Minute, ids)
	})
}

func TestNode_M06_ACorruptTaskThatIsMendedRuns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.joins("n", "")
		for i, spec := range []string{"{", "{}"} {
			if _, err := broker.CommitOne(t.Context(), w.store, broker.Txn{Then: []broker.Op{
				broker.Put("/test/tasks/a", []byte(spec)),
			}}); err != nil {
				t.Fatal(err)
			}
			w.sleep(10 * time.Second)
			if n := w.startsOf("a"); n != i {
				t.Errorf("with %s it ran %d times", spec, n)
			}
		}
	})
}

func TestClaim_M12_AReleaseThatIsRefusedForNowIsTriedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var refused atomic.Int32
		w.joins("n", "", meddle(func(m *meddler) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				if refused.Add(1) > 3 {
					return m.Coordinator.End(ctx, endings)
				}
				errs := make([]coordinator.Ended, len(endings))
				for i := range errs {
					errs[i].Err = broker.NewError("commit", "", broker.ErrPermission, fmt.Errorf("the token is being renewed"))
				}
				return errs
			}
		}))
		ids := w.submit(1, windlass.Spec{})
		w.eventually(time.Minute, "it runs", w.allRunning(1))
		if err := w.client.Send(t.Context(), "n", windlass.Command{
			Command: windlass.CommandStopTask, Parameters: []byte(`{"task":"task-000"}`),
		}); err != nil {
			t.Fatal(err)
		}
		w.eventually(20*time.Second, "it was released and runs again", func() bool { return w.startsOf(ids[0]) == 2 })
	})
}

func TestNode_M16_CloseIsBoundedWhenOnlyRenewalsAreAnswered(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		n := w.joins("n", "")
		w.submit(3, windlass.Spec{})
		w.eventually(time.Minute, "all run", w.allRunning(3))
		n.use(t, "stall on commit,list,batch,revoke")
		w.command("n", windlass.CommandFreeze)
		w.sleep(time.Minute)
		start := time.Now()
		if err := n.leave(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("closing took %v", took)
		}
	})
}

func TestNode_M14_ABrokerThatWasRestoredFromAnEarlierTimeEndsTheIncarnation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		restored := &restored{}
		n := w.joins("n", "", func(cfg *windlass.Config) {
			restored.Broker = cfg.Broker
			cfg.Broker = restored
		})
		ids := w.submit(5, windlass.Spec{})
		w.settles(time.Minute, ids)
		restored.once.Store(true)
		n.use(t, "break on batch call 1")
		w.submitted(w.client, "more", 1)
		w.sleep(time.Second)
		if n := len(w.causesOf(ids[0])); n != 1 {
			t.Errorf("the handler was stopped %d times", n)
		}
		w.settles(time.Minute, ids)
	})
}
