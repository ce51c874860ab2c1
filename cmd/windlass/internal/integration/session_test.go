package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestNode_M04_ASecondNodeOfALiveNameIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("same")
		c.awaitNodes(1)
		if err := c.newNode("same").Run(t.Context()); !errors.Is(err, windlass.ErrNameTaken) || !strings.Contains(err.Error(), `"same"`) {
			t.Errorf("the second ended with %v", err)
		}
		c.submit(1, windlass.Spec{})
		c.WaitUntil(time.Second, "the first still works", c.allRunning(1))
	})
}

func TestNode_M14_ANodeThatCannotReachTheBrokerStopsBeforeOthersStart(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var conn broker.Broker
		c.join("a", func(cfg *windlass.Config) { conn = cfg.Broker })
		c.submit(20, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", c.allRunning(20))
		c.join("b")
		c.WaitUntil(time.Minute, "b has a part", func() bool { return c.runningOn("b") > 0 && c.runningOn("a")+c.runningOn("b") == 20 })
		c.Advance(20 * time.Second) // what was claimed just before would be started one by one
		conn.Close()                // a is alive and hears nothing any more
		took := c.WaitUntil(30*time.Second, "b has all", func() bool { return c.runningOn("b") == 20 })
		t.Logf("taken over after %v", took)
		if took > 17*time.Second {
			t.Errorf("taken over after %v; the session's TTL is 15s", took)
		}
		for _, cause := range c.causesOf("task-000") {
			if !errors.Is(cause, windlass.ErrLost) && !errors.Is(cause, windlass.ErrReleased) {
				t.Errorf("it was stopped because of %v", cause)
			}
		}
		// The overlap check of inCluster is the point of this test.
	})
}

func TestNode_ALostRegistrationMakesANewIncarnation(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n")
		c.submit(3, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", c.allRunning(3))
		before := c.nodes()[0].Incarnation
		c.delete("/test/nodes/n/info")
		c.WaitUntil(20*time.Second, "it is back as another", func() bool {
			nodes := c.nodes()
			return len(nodes) == 1 && nodes[0].Incarnation != before
		})
		c.WaitUntil(20*time.Second, "all run again", c.allRunning(3))
	})
}

func TestNode_M16_CloseGivesEverythingBackAndIsBounded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		grace := func(cfg *windlass.Config) { cfg.ShutdownGrace = 3 * time.Second }
		n := c.join("n", grace)
		c.submit(5, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", c.allRunning(5))
		start := time.Now()
		c.must(n.Stop())
		if took := time.Since(start); took > time.Second {
			t.Errorf("closing took %v although all handlers returned at once", took)
		}
		if nodes, claims := c.nodes(), c.collect("/test/claims/"); len(nodes) != 0 || len(claims) != 0 {
			t.Errorf("left: nodes %v, claims %v", nodes, claims)
		}
		stubborn := c.join("stubborn", grace, handlers(map[string]run{"stubborn": func(context.Context, *windlass.Claim) error {
			<-release // ignores its context
			return nil
		}}))
		c.Submit(windlass.Submission{ID: "d", Spec: windlass.Spec{Type: "stubborn"}})
		c.WaitFor(time.Second, "d", windlass.StatusRunning)
		start = time.Now()
		err := stubborn.Stop()
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("closing took %v; the grace is 3s", took)
		}
		if !errors.Is(err, windlass.ErrAbandoned) || !strings.Contains(fmt.Sprint(err), `"d"`) {
			t.Errorf("closing ended with %v", err)
		}
		c.wantStatus("d", windlass.StatusRunning)
		close(release)
		c.Advance(20 * time.Second) // the abandoned session expires
	})
}

func TestNode_M14_AFrozenNodeStopsBeforeOthersStartAndRejoins(t *testing.T) {
	for _, plan := range []string{"", `late 40s on commit chance 0.5`, `delay-reply 5s on commit chance 0.5`} {
		inVerified(t, func(t *testing.T, w *cluster) {
			w.takes = finiteSome
			a := w.joinFaulty("a", "")
			ids := w.submitted(w.client, "before", 20)
			w.Advance(3 * time.Second)
			w.joinFaulty("b", "")
			w.Advance(time.Second)
			a.Use(plan)
			w.Advance(2 * time.Second)
			a.Freeze()
			ids = append(ids, w.submitted(w.client, "during", 20)...)
			w.Advance(45 * time.Second)
			if n := w.runningOn("a"); n != 0 {
				t.Errorf("%d handlers run on a node that has been frozen for three TTLs", n)
			}
			w.settles(0, ids)
			a.Thaw()
			w.Advance(45 * time.Second)
			a.Use("")
			w.settles(time.Minute, ids)
			if w.runningOn("a") == 0 {
				t.Error("it did not rejoin")
			}
		})
	}
}

func TestNode_M14_ABrokerThatIsBackWithinTheTTLCostsNoTask(t *testing.T) {
	for away, keeps := range map[time.Duration]bool{6 * time.Second: true, 40 * time.Second: false} {
		inVerified(t, func(t *testing.T, w *cluster) {
			nodes := []*windlasstest.Node{w.joinFaulty("a", ""), w.joinFaulty("b", "")}
			w.Advance(time.Second)
			ids := w.submit(10, windlass.Spec{})
			w.settles(time.Minute, ids)
			w.Advance(20 * time.Second)
			before := w.startsOf(ids[0])
			for range 3 {
				for _, n := range nodes {
					n.Partition()
				}
				w.Advance(away)
				for _, n := range nodes {
					n.Heal()
				}
				w.Advance(time.Second) // renewals are tried every fifth of one by now
				w.settles(time.Minute, ids)
			}
			if again := w.startsOf(ids[0]) - before; again == 0 != keeps {
				t.Errorf("away for %v three times: it started %d times more; causes %v", away, again, w.causesOf(ids[0]))
			}
		})
	}
}

// The broker is unreachable until the nodes give up their sessions. When it is back it still
// has them; the nodes revoke them instead of waiting for their expiry.
func TestNode_M14_SessionsThatWereLostHoldNothingUpOnceTheBrokerIsBack(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		ttl := func(cfg *windlass.Config) { cfg.SessionTTL = session.TTLMax }
		nodes := []*windlasstest.Node{w.joinFaulty("a", "", ttl), w.joinFaulty("b", "", ttl)}
		ids := w.submit(10, windlass.Spec{})
		w.WaitUntil(time.Minute, "all run", w.allRunning(len(ids)))
		w.Advance(20 * time.Second) // until nothing moves any more
		timing := session.Derive(session.TTLMax)
		for _, n := range nodes {
			n.Partition()
		}
		cut := time.Now()
		w.Advance(timing.Stop + time.Second)
		if n := len(nodes[0].Tasks()) + len(nodes[1].Tasks()); n > 0 {
			t.Fatalf("%d tasks are held", n)
		}
		for _, n := range nodes {
			n.Heal()
		}
		w.WaitUntil(time.Minute, "all run again", w.allRunning(len(ids)))
		if away := time.Since(cut); away > timing.Hard-timing.Renew {
			t.Errorf("they run %v after the last renewal could be sent, when the sessions may have expired by themselves", away)
		}
	})
}

func TestNode_M14_TwoNodesOfOneNameAreNeverBothAtWork(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		first := w.joinFaulty("a", "")
		ids := w.submit(10, windlass.Spec{})
		w.settles(time.Minute, ids)
		first.Freeze()
		second := w.joinFaulty("a", "")
		w.Advance(5 * time.Second)
		if n := len(second.Tasks()); n != 0 {
			t.Errorf("the second holds %d tasks while the first is registered", n)
		}
		w.Advance(30 * time.Second)
		first.Thaw()
		w.Advance(time.Minute)
		w.settles(time.Minute, ids)
		if a, b := len(first.Tasks()), len(second.Tasks()); a != 0 || b != 10 {
			t.Errorf("the first holds %d tasks, the second %d", a, b)
		}
		w.must(second.Stop())
		w.settles(time.Minute, ids)
		if n := len(first.Tasks()); n != 10 {
			t.Errorf("the first holds %d tasks after the second has left", n)
		}
	})
}

func TestFence_M14_AHandlerThatIgnoresItsContextIsFencedAndNotJoinedByAnother(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		release := make(chan struct{})
		var fenced atomic.Int32
		a := w.joinFaulty("a", "", func(cfg *windlass.Config) {
			cfg.Fence = func(overdue func() []string) { fenced.Add(int32(len(overdue()))) }
		}, running(func(context.Context, *windlass.Claim) error {
			<-release
			return nil // too late for that
		}))
		ids := w.submit(3, windlass.Spec{})
		w.settles(time.Minute, ids)
		a.Partition()
		w.Advance(20 * time.Second)
		a.Heal()
		w.Advance(2 * time.Minute) // it is the only node, and leaves them alone
		if n := fenced.Load(); n != 3 || len(a.Tasks()) != 0 || w.startsOf(ids[0]) != 1 {
			t.Errorf("%d fenced, %d held, started %d times", n, len(a.Tasks()), w.startsOf(ids[0]))
		}
		close(release)
		w.Advance(time.Minute)
		w.settles(time.Minute, ids)
		if n := w.startsOf(ids[0]); n != 2 {
			t.Errorf("started %d times", n)
		}
	})
}

// In virtual time a loop that spins never ends, so that this test would time out.
func TestNode_M16_ADrainingNodeThatIsClosedWaitsForItsHandlersWithoutSpinning(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "", w.slowToStop(3*time.Second))
		w.submit(3, windlass.Spec{})
		w.WaitUntil(time.Minute, "all run", w.allRunning(3))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("draining: %v", err)
		}
		w.must(n.Stop())
	})
}

func TestNode_M14_AnAuditThatFallsBetweenTheTwoDeadlinesDoesNotSpin(t *testing.T) {
	for at := range 8 {
		inVerified(t, func(t *testing.T, w *cluster) {
			n := w.joinFaulty("n", "", w.slowToStop(3900*time.Millisecond))
			ids := w.submit(3, windlass.Spec{})
			w.WaitUntil(time.Minute, "all run", w.allRunning(3))
			w.Advance(time.Duration(at) * time.Second)
			n.Partition()
			w.Advance(20 * time.Second)
			n.Heal()
			w.settles(time.Minute, ids)
		})
	}
}

func TestNode_M16_ANodeThatLosesItsSessionWhileItIsClosedEndsAtTheHardDeadline(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "", w.slowToStop(time.Minute), func(cfg *windlass.Config) { cfg.ShutdownGrace = 9 * time.Second })
		w.submit(1, windlass.Spec{})
		w.WaitUntil(time.Minute, "it runs", w.allRunning(1))
		n.Partition()
		w.Advance(4 * time.Second)
		start := time.Now()
		if err := n.Stop(); !errors.Is(err, windlass.ErrAbandoned) {
			t.Errorf("closing: %v", err)
		}
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("closing took %v", took)
		}
		w.WaitUntil(time.Minute, "the handler returns", w.allRunning(0))
		n.Heal()
	})
}

func TestFence_M14_SparesAHandlerThatHasReturnedWhateverBecomesOfItsTask(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.takes = func(string) time.Duration { return 20 * time.Second }
		fenced := make(chan []string, 10)
		n := w.joinFaulty("n", "", func(cfg *windlass.Config) { cfg.Fence = func(overdue func() []string) { fenced <- overdue() } })
		ids := w.submit(1, windlass.Spec{})
		w.WaitUntil(time.Minute, "it runs", w.allRunning(1))
		w.Advance(18 * time.Second)
		n.Partition() // it returns in two seconds, and that cannot be stored
		w.Advance(time.Minute)
		n.Heal()
		select {
		case ids := <-fenced:
			t.Errorf("the fence was called for %q", ids)
		default:
		}
		w.settles(time.Minute, ids)
	})
}

func TestNode_M16_CloseIsBoundedWhenOnlyRenewalsAreAnswered(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "")
		w.submit(3, windlass.Spec{})
		w.WaitUntil(time.Minute, "all run", w.allRunning(3))
		n.Use("stall on commit,list,batch,revoke")
		w.send("n", operate.Freeze, "")
		w.Advance(time.Minute)
		start := time.Now()
		w.must(n.Stop())
		if took := time.Since(start); took > 8*time.Second {
			t.Errorf("closing took %v", took)
		}
	})
}

func TestNode_M14_ABrokerThatWasRestoredFromAnEarlierTimeEndsTheIncarnation(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		restored := &restored{}
		n := w.joinFaulty("n", "", func(cfg *windlass.Config) {
			restored.Broker = cfg.Broker
			cfg.Broker = restored
		})
		ids := w.submit(5, windlass.Spec{})
		w.settles(time.Minute, ids)
		restored.once.Store(true)
		n.Use("break on batch call 1")
		w.submitted(w.client, "more", 1)
		w.Advance(time.Second)
		if n := len(w.causesOf(ids[0])); n != 1 {
			t.Errorf("the handler was stopped %d times", n)
		}
		w.settles(time.Minute, ids)
	})
}

// sluggish is a balancer that blocks its node's loop half of the time.
type sluggish struct{ windlass.Planner }

func (sluggish) ReviewEvery() time.Duration { return time.Second }

func (sluggish) Balance(v *windlass.View) []string {
	if v.Trigger == events.TriggerReview {
		time.Sleep(500 * time.Millisecond)
	}
	return nil
}

// Regression: a handler that returned because its session was lost counted as failed if the
// node's loop, being busy, learned of the return before the loss.
func TestNode_M55_ALostSessionIsNoErrorOfTheTaskWhateverIsHeardOfFirst(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		var nodes []*windlasstest.Node
		for i := range 20 {
			nodes = append(nodes, c.join(fmt.Sprintf("n%02d", i), func(cfg *windlass.Config) { cfg.Balancer = sluggish{} }))
		}
		ids := c.submit(60, windlass.Spec{})
		c.Advance(10 * time.Second)
		for i, n := range nodes {
			c.Advance(time.Duration(i%7) * 100 * time.Millisecond) // at different points of their steps
			n.Use("lose-request 1s on keepalive")                  // everything else arrives, what the node writes about its tasks as well
		}
		c.Advance(30 * time.Second)
		for _, n := range nodes {
			n.Use("")
		}
		c.Advance(2 * time.Minute)
		for _, id := range ids {
			if task := c.task(id); task.Status != windlass.StatusRunning || len(task.Errors) > 0 {
				t.Errorf("%s is %s after the errors %v", id, task.Status, task.Errors)
			}
		}
	})
}

// Regression: the broker was away, and a dead node's session got its TTL again. A node of the
// same name did not wait that long.
func TestNode_M04_WaitsLongerForADeadHolderOfItsNameWhenTheBrokerWasAway(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		dead := w.joinFaulty("n", "")
		w.Advance(time.Second)
		kv := w.get("/test/nodes/n/info")
		dead.Partition()
		w.Advance(time.Second)
		next := w.joinFaulty("n", "")
		for range 4 {
			w.Advance(8 * time.Second)
			// As after a change of leader: the session gets all of its TTL again.
			next.Partition()
			if _, err := w.store.KeepAlive(t.Context(), kv.Session); err != nil {
				t.Fatal(err)
			}
			w.Advance(time.Second)
			next.Heal()
		}
		w.Advance(30 * time.Second)
		if err := next.Over(); err != nil {
			t.Fatalf("it gave up: %v", err)
		}
		w.settles(time.Minute, w.submit(1, windlass.Spec{}))
	})
}

func TestSession_ASlowRenewalIsPublishedAndForgottenAfterTenMinutes(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.Advance(time.Minute)
		if got := c.nodes()[0].SlowRenewal; got != "" {
			t.Errorf("a renewal is said to have taken %s", got)
		}
		a.Use("delay-reply 1s on keepalive call 1")
		c.WaitUntil(2*time.Minute, "it is published", func() bool { return c.nodes()[0].SlowRenewal != "" })
		if got, err := time.ParseDuration(c.nodes()[0].SlowRenewal); err != nil || got < time.Second || got > 1500*time.Millisecond {
			t.Errorf("it took %v, %v", got, err)
		}
		c.WaitUntil(12*time.Minute, "it is forgotten", func() bool { return c.nodes()[0].SlowRenewal == "" })
	})
}
