package windlasstest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/windlasstest"
)

// registered reports whether clients see a node.
func registered(t *testing.T, c *windlasstest.Cluster, name string) bool {
	t.Helper()
	nodes, err := c.Client().Nodes(t.Context())
	noError(t, err)
	return slices.ContainsFunc(nodes, func(n windlass.NodeStatus) bool { return n.Name == name })
}

func TestKill_NothingOfTheNodeReachesTheBrokerOrALedger(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		ledger := c.NewLedger()
		var last, cause error
		holder := start(c, config(func(ctx context.Context, claim *windlass.Claim) error {
			for range 5 { // whatever its context says
				<-time.After(time.Second)
				last = ledger.Write(claim, "alive")
			}
			cause = context.Cause(ctx)
			return nil // which would complete the task
		}), "a")
		c.Advance(2500 * time.Millisecond)
		holder.Kill()
		writes := ledger.Entry("task").Writes
		c.Advance(4 * time.Second)
		if got := ledger.Entry("task").Writes; got != writes || writes == 0 || ledger.Refused() != 0 {
			t.Errorf("%d writes before and %d after, %d refused as stale", writes, got, ledger.Refused())
		}
		if !errors.Is(last, windlasstest.ErrKilled) || !errors.Is(cause, windlasstest.ErrKilled) {
			t.Errorf("the last write said %v, and the context ended with %v", last, cause)
		}
		// Neither was the task completed, nor the claim or the session given up.
		detail, err := c.Client().Task(t.Context(), "task")
		if err != nil || detail.Status != windlass.StatusRunning || detail.Node != "a" || !registered(t, c, "a") {
			t.Errorf("the task is %s on %q (%v)", detail.Status, detail.Node, err)
		}
		run := c.Runs("task")[0]
		if !run.Killed || run.Ended.Sub(run.Started) >= 3*time.Second || c.Running("task") != 0 || !holder.Killed() {
			t.Errorf("its run is %+v", run)
		}
	})
}

func TestKill_TheTasksMoveWhenTheSessionHasExpired(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		dead := start(c, config(untilStopped), "a", "b")
		c.Advance(time.Minute)
		dead.Kill()
		if took := c.Settle(time.Minute); took < ttl*4/5 || took > ttl+time.Second {
			t.Errorf("it took %v; the TTL is %v", took, ttl)
		}
		if c.Holder("task") == dead {
			t.Error("it did not move")
		}
	})
}

func TestKill_AHandlerThatIsAboutToStartDoesNotStart(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		var n *windlasstest.Node
		cfg := config(untilStopped)
		cfg.Events.Claimed = func(string, int64) { n.Kill() }
		n = c.Start("a", cfg)
		c.Submit(windlass.Submission{ID: "task"})
		c.WaitUntil(time.Minute, "the claim", n.Killed)
		c.Advance(time.Minute)
		if runs := c.Runs("task"); len(runs) != 0 {
			t.Errorf("it had the runs %v", runs)
		}
	})
}

func TestKill_NothingHealsTheDeadNotEvenTheEndOfTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		c := windlasstest.New(t, windlasstest.Options{Open: func() broker.Broker { return store.Broker() }})
		n := start(c, config(untilStopped), "a")
		n.Kill()
		n.Heal()
		n.Thaw()
		if _, err := n.Faults().Get(t.Context(), "/test/nodes/a/info"); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("the dead ask and are told %v", err)
		}
		c.Close()
		if _, err := store.Broker().Get(t.Context(), "/test/nodes/a/info"); err != nil {
			t.Errorf("the dead node has left in good order: %v", err)
		}
	})
}

func TestKillAndStop_AtAnyMomentOfANodesStartEndIt(t *testing.T) {
	for _, end := range []func(*windlasstest.Node){(*windlasstest.Node).Kill, func(n *windlasstest.Node) { _ = n.Stop() }} {
		windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
			c.Submit(windlass.Submission{ID: "task"})
			n := c.Start("a", config(untilStopped))
			n.Use("delay-reply 10ms")
			for i := range 20 {
				c.Advance(time.Duration(i) * time.Millisecond)
				end(n)
				n = n.Restart()
				n.Use("delay-reply 10ms")
			}
			n.Use("")
			c.Settle(5 * time.Minute)
		})
	}
}

func TestNode_FaultsMayBeSwitchedFromAnywhereAtOnce(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(untilStopped), "a", "b")
		var all sync.WaitGroup
		for _, do := range []func(){n.Freeze, n.Heal, n.Kill, n.Partition, n.Kill, n.Thaw, n.Heal, func() { _ = n.Stop() }} {
			all.Go(do)
		}
		all.Wait()
		if c.Settle(time.Minute); c.Holder("task") == n {
			t.Error("a node that was killed was healed")
		}
	})
}

func TestFreezeAndPartition_HandlersStopBeforeOthersStartAndTheNodeComesBack(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(*windlasstest.Node) }{
		"freeze":    {(*windlasstest.Node).Freeze, (*windlasstest.Node).Thaw},
		"partition": {(*windlasstest.Node).Partition, (*windlasstest.Node).Heal},
	} {
		t.Run(name, func(t *testing.T) {
			windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
				first := start(c, config(untilStopped), "a", "b")
				fault.begin(first)
				if c.Settle(time.Minute); c.Holder("task") == first {
					t.Error("it did not move")
				}
				runs := c.Runs("task")
				if len(runs) != 2 || !errors.Is(runs[0].Cause, windlass.ErrLost) || runs[0].Killed ||
					runs[1].Started.Sub(runs[0].Ended) < time.Second {
					t.Errorf("the runs are %v", runs)
				}
				if registered(t, c, first.Name()) {
					t.Errorf("%s is still there", first.Name())
				}
				fault.end(first)
				c.WaitUntil(time.Minute, "the node comes back", func() bool { return registered(t, c, first.Name()) })
			})
		})
	}
}

func TestFreezeAndPartition_AShortOneCostsNothing(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(untilStopped), "a", "b")
		n.Freeze()
		c.Advance(5 * time.Second)
		n.Thaw()
		c.Advance(10 * time.Second)
		n.Partition()
		c.Advance(5 * time.Second)
		n.Heal()
		c.Advance(time.Minute)
		if runs := c.Runs("task"); len(runs) != 1 || !runs[0].Ended.IsZero() {
			t.Errorf("the runs are %v", runs)
		}
	})
}

func TestDrain_TheNodeGivesWhatItHoldsToTheOthersAndRunsOn(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(untilStopped), "a", "b")
		noError(t, n.Drain(t.Context()))
		if took := c.Settle(time.Minute); took > 2*time.Second || c.Holder("task") == n || n.Killed() || n.Over() != nil {
			t.Errorf("after %v it is on %s; %v", took, c.Holder("task").Name(), n.Over())
		}
		if cause := c.Runs("task")[0].Cause; !errors.Is(cause, windlass.ErrDraining) {
			t.Errorf("the handler was told %v", cause)
		}
	})
}

func TestStop_TheTasksMoveAtOnce(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(untilStopped), "a", "b")
		noError(t, n.Stop())
		if took := c.Settle(time.Minute); took > time.Second || !n.Killed() || registered(t, c, n.Name()) {
			t.Errorf("it took %v", took)
		}
		noError(t, n.Stop()) // once more
	})
}

func TestStop_AHandlerThatIsLateEndsWithTheProcess(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		ledger := c.NewLedger()
		n := start(c, config(func(_ context.Context, claim *windlass.Claim) error {
			<-time.After(ttl)
			return ledger.Write(claim, "late")
		}), "a")
		if err := n.Stop(); !errors.Is(err, windlass.ErrAbandoned) || !errors.Is(n.Over(), windlass.ErrAbandoned) {
			t.Errorf("Stop: %v, Over: %v", err, n.Over())
		}
		c.Advance(ttl)
		if run := c.Runs("task")[0]; !run.Killed || ledger.Entry("task").Writes != 0 {
			t.Errorf("the run is %v, and it wrote %d times", run, ledger.Entry("task").Writes)
		}
	})
}

func TestRestart_ANodeThatWasKilledComesBackUnderItsName(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(untilStopped), "a")
		n.Kill()
		again := n.Restart()
		if took := c.Settle(time.Minute); took < ttl*4/5 || c.Holder("task") != again || again.Name() != "a" {
			t.Errorf("it took %v", took)
		}
		if n.Heal(); !n.Killed() || again.Killed() {
			t.Error("the old process is the new one")
		}
	})
}

func TestUse_APlanStrikesTheCallsOfOneNode(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(untilStopped), "a", "b")
		n.Use("refuse on keepalive")
		c.WaitUntil(time.Minute, "the other runs it", func() bool { return c.Running("task") == 1 && c.Holder("task") != n })
		if struck := n.Faults().Struck(); struck[0] == 0 {
			t.Error("the plan struck nothing")
		}
		n.Use("")
		c.WaitUntil(time.Minute, "the node comes back", func() bool { return registered(t, c, n.Name()) })
	})
}

func TestFence_ANodeWithAHandlerThatIgnoresItsContextIsKilledInTime(t *testing.T) {
	windlasstest.TestWith(t, windlasstest.Options{Fence: true, SessionTTL: 2 * ttl}, func(t *testing.T, c *windlasstest.Cluster) {
		n := start(c, config(stubborn), "a", "b")
		n.Partition()
		c.Settle(2 * time.Minute)
		if runs := c.Runs("task"); !n.Killed() || !runs[0].Killed || !runs[0].Ended.Before(runs[1].Started) {
			t.Errorf("the runs are %v", runs)
		}
	})
}
