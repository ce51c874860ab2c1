package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// Regression: a drain that was ended kept its next step due, and the loop span.
func TestCommand_M34_ADrainThatIsEndedLeavesNothingDue(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "", w.slowToStop(3*time.Second))
		w.submit(3, windlass.Spec{})
		w.WaitUntil(time.Minute, "all run", w.allRunning(3))
		w.send("n", operate.Drain, "")
		w.Advance(time.Second)
		w.uncordon("n")
		w.Advance(2 * time.Minute) // which would not pass
		w.WaitUntil(time.Minute, "all run again", w.allRunning(3))
		if n.Frozen() || w.startsOf("task-000") != 2 {
			t.Errorf("frozen: %t, started %d times", n.Frozen(), w.startsOf("task-000"))
		}
	})
}

func (c *cluster) send(node, command, parameters string) {
	c.t.Helper()
	err := operate.New(c.client).Send(c.t.Context(), node, operate.Command{Command: command, Parameters: json.RawMessage(parameters)})
	c.must(err)
}

func TestCommand_M23_CommandsRunInOrderAndAreDeletedAndNeedTheirNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var ran []string
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Events.Commanded = func(command string, err error) { ran = append(ran, fmt.Sprint(command, " ", err)) }
		})
		c.awaitNodes(1)
		for _, command := range []string{"freeze", "balance", "unfreeze"} {
			c.send("n", command, "")
		}
		// What is not a command, and the oldest form of one, written by hand.
		info := c.get("/test/nodes/n/info")
		for i, value := range []string{"freeze", `{"command":`, `{"command":"dance"}`, `{"command":"stop_task","parameters":{"task":5}}`} {
			key := fmt.Sprintf("/test/nodes/n/commands/%d", i)
			c.commit(broker.PutSession(key, []byte(value), info.Session))
		}
		c.WaitUntil(time.Second, "all were carried out", func() bool { return len(ran) == 7 })
		if got := ran[:4]; !slices.Equal(got, []string{"freeze <nil>", "balance <nil>", "unfreeze <nil>", "freeze <nil>"}) {
			t.Errorf("in order: %q", got)
		}
		c.WaitUntil(time.Second, "they are gone from the store", func() bool {
			kvs, _, err := broker.Collect(t.Context(), c.store, "/test/nodes/n/commands/")
			return err == nil && len(kvs) == 0
		})
		n.Stop()
		err := operate.New(c.client).Send(t.Context(), "n", operate.Command{Command: "freeze"})
		if !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("a command to a node that is gone: %v", err)
		}
	})
}

func TestCommand_BadOnesAreRefusedBeforeTheyAreSent(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		for _, bad := range []operate.Command{
			{Command: "dance"}, {Command: ""}, {Command: "stop_task"}, {Command: "freeze", Parameters: json.RawMessage(`{"x":1}`)},
			{Command: "drain", Parameters: json.RawMessage(`{"per_second":0}`)}, {Command: "drain", Parameters: json.RawMessage(`{`)},
		} {
			var input *windlass.BadInputError
			if err := operate.New(c.client).Send(t.Context(), "n", bad); !errors.As(err, &input) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

func TestCommand_M33_FreezeKeepsWhatRunsAndClaimsNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.submit(2, windlass.Spec{})
		c.WaitUntil(time.Second, "both run", c.allRunning(2))
		c.send("n", "freeze", "")
		c.send("n", "freeze", "")
		c.WaitUntil(time.Second, "clients see it", func() bool { return c.nodes()[0].Frozen && n.Frozen() })
		c.Submit(windlass.Submission{ID: "late"})
		c.Advance(time.Minute)
		if c.startsOf("late") != 0 || !c.allRunning(2)() {
			t.Error("a frozen node claimed a task, or gave one up")
		}
		c.send("n", "unfreeze", "")
		c.WaitUntil(time.Second, "it claims again", c.allRunning(3))
		if c.nodes()[0].Frozen {
			t.Error("clients still see it frozen")
		}
	})
}

func TestCommand_M34_BalanceAndStopTaskWorkOnAFrozenNode(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		c.submit(10, windlass.Spec{})
		c.WaitUntil(time.Second, "all run", c.allRunning(10))
		c.send("a", "freeze", "")
		c.WaitUntil(time.Second, "a is frozen", a.Frozen)
		c.join("b")
		c.awaitNodes(2)
		c.Advance(time.Minute)
		if n := c.runningOn("a"); n != 10 {
			t.Fatalf("a frozen node rebalanced: it has %d", n)
		}
		c.send("a", "stop_task", `{"task":"task-003"}`)
		c.WaitUntil(5*time.Second, "b took it", func() bool { return c.runningOn("b") == 1 })
		if cause := c.causesOf("task-003")[0]; !errors.Is(cause, windlass.ErrReleased) {
			t.Errorf("cause %v", cause)
		}
		c.send("a", "balance", "")
		c.WaitUntil(time.Minute, "about even", func() bool { return c.runningOn("b") >= 4 && c.runningOn("a")+c.runningOn("b") == 10 })
	})
}

func TestCommand_M34_DrainGivesEverythingAwayAtAPace(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("a")
		b := c.join("b")
		c.awaitNodes(2)
		c.Advance(time.Second) // and know of each other
		c.submit(100, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(100))
		held, start := c.runningOn("a"), time.Now()
		c.send("a", "drain", `{"per_second":20}`)
		c.WaitUntil(time.Duration(held/20+5)*time.Second, "a is empty", func() bool { return c.runningOn("a") == 0 })
		if took, least := time.Since(start), time.Duration(held/20-1)*time.Second; took < least {
			t.Errorf("%d tasks at 20 a second took %v", held, took)
		}
		c.WaitUntil(time.Minute, "b has all", func() bool { return c.runningOn("b") == 100 })
		c.Advance(time.Minute)
		nodes := c.nodes()
		if c.runningOn("a") != 0 || !nodes[0].Draining || nodes[0].Tasks != 0 || nodes[1].Tasks != 100 {
			t.Errorf("after draining: %+v", nodes)
		}
		c.uncordon("a")
		c.WaitUntil(10*time.Second, "a takes part again", func() bool { return c.runningOn("a") >= 44 }) // what drift tolerates
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Drain(ctx); err != nil || len(b.Tasks()) != 0 {
			t.Errorf("Drain: %v, left %v", err, b.Tasks())
		}
	})
}

func TestCommand_M33_AFrozenNodeThatLosesItsSessionComesBackFrozen(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.awaitNodes(1)
		c.send("n", "freeze", "")
		c.WaitUntil(time.Second, "it is frozen", n.Frozen)
		before := c.nodes()[0].Incarnation
		c.delete("/test/nodes/n/info")
		c.WaitUntil(20*time.Second, "it is back", func() bool {
			nodes := c.nodes()
			return len(nodes) == 1 && nodes[0].Incarnation != before
		})
		c.submit(1, windlass.Spec{})
		c.Advance(time.Minute)
		if !c.nodes()[0].Frozen || c.startsOf("task-000") != 0 {
			t.Error("it forgot that it was frozen")
		}
		c.send("n", "unfreeze", "")
		c.WaitUntil(time.Second, "it claims", c.allRunning(1))
	})
}

// The reply to the sender is lost. It writes the command again after the node has carried it
// out and deleted it.
func TestCommand_M23_ACommandThatIsSentAgainAfterALostReplyRunsOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var ran int
		n := c.join("n", func(cfg *windlass.Config) { cfg.Events.Commanded = func(string, error) { ran++ } })
		c.awaitNodes(1)
		shaky := faulty.Wrap(c.server.Broker(), faulty.MustParse("lose-reply 1s on commit call 2"))
		defer shaky.Close()
		client := c.clientOn(shaky)
		if err := operate.New(client).Send(t.Context(), "n", operate.Command{Command: operate.Balance}); err != nil {
			t.Error(err)
		}
		c.Advance(10 * time.Second)
		n.Stop()
		if ran != 1 {
			t.Errorf("it was carried out %d times", ran)
		}
	})
}

// forbidding is a broker that can deny permission to read commands to tasks, to delete them,
// or to write registrations.
type forbidding struct {
	broker.Broker
	reads, deletes, registers atomic.Bool
}

// Get implements broker.Broker.
func (f *forbidding) Get(ctx context.Context, key string) (broker.KV, error) {
	if f.reads.Load() && strings.HasPrefix(key, "/test/commands/") {
		return broker.KV{}, broker.NewError("get", key, broker.ErrPermission, nil)
	}
	return f.Broker.Get(ctx, key)
}

// Commit implements broker.Broker.
func (f *forbidding) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if len(txns) == 1 && len(txns[0].Then) == 1 && (f.deletes.Load() && strings.HasPrefix(txns[0].Then[0].Key, "/test/commands/") ||
		f.registers.Load() && strings.HasPrefix(txns[0].Then[0].Key, "/test/nodes/")) {
		return []broker.Result{{Err: broker.NewError("commit", txns[0].Then[0].Key, broker.ErrPermission, nil)}}
	}
	return f.Broker.Commit(ctx, txns...)
}

// joinForbidding starts a node on such a broker, and counts its reports of trouble.
func (c *cluster) joinForbidding(refuse *forbidding) (trouble *atomic.Int32) {
	trouble = new(atomic.Int32)
	c.join("n", func(cfg *windlass.Config) {
		refuse.Broker, cfg.Broker = cfg.Broker, refuse
		cfg.Events.BrokerTrouble = func(error) { trouble.Add(1) }
	})
	return trouble
}

func TestCommand_ACommandThatMayNotBeReadIsNotTakenForHandled(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		sent := c.leaveCommand("task-000", statemachine.Pause)
		refuse := &forbidding{}
		refuse.reads.Store(true)
		trouble := c.joinForbidding(refuse)
		c.Advance(time.Minute)
		if c.startsOf("task-000") != 0 || trouble.Load() != 1 {
			t.Errorf("%d starts although it is to pause, and %d reports", c.startsOf("task-000"), trouble.Load())
		}
		refuse.reads.Store(false)
		c.WaitFor(5*time.Second, "task-000", windlass.StatusPaused)
		if d, err := c.client.AwaitCommand(t.Context(), sent); err != nil || c.startsOf("task-000") != 0 {
			t.Errorf("%s after %d starts, %v", d.Status, c.startsOf("task-000"), err)
		}
	})
}

func TestCommand_ACommandThatMayNotBeReadHoldsNothingUpOnceItIsGone(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		c.leaveCommand("task-000", statemachine.Pause)
		refuse := &forbidding{}
		refuse.reads.Store(true)
		c.joinForbidding(refuse)
		c.Advance(10 * time.Second)
		c.delete("/test/commands/task-000")
		c.WaitUntil(5*time.Second, "it runs", c.allRunning(1))
	})
}

func TestCommand_ACommandThatMayNotBeDeletedIsReportedAndDeletedOnceItMay(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		refuse := &forbidding{}
		refuse.deletes.Store(true)
		trouble := c.joinForbidding(refuse)
		c.submit(1, windlass.Spec{})
		c.WaitUntil(5*time.Second, "it runs", c.allRunning(1))
		c.sendTask("task-000", statemachine.Run)
		c.Advance(time.Minute)
		if trouble.Load() != 1 {
			t.Errorf("it was reported %d times", trouble.Load())
		}
		refuse.deletes.Store(false)
		c.WaitUntil(5*time.Second, "it is deleted once that is permitted", func() bool {
			_, err := c.store.Get(t.Context(), "/test/commands/task-000")
			return errors.Is(err, broker.ErrNotFound)
		})
	})
}

func TestNode_M04_SaysWhatItIsOnceItMay(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		refuse := &forbidding{}
		c.joinForbidding(refuse)
		c.awaitNodes(1)
		refuse.registers.Store(true)
		c.must(operate.New(c.client).Send(t.Context(), "n", operate.Command{Command: operate.Freeze}))
		c.Advance(10 * time.Second)
		if c.nodes()[0].Frozen {
			t.Fatal("what may not be written is written")
		}
		refuse.registers.Store(false)
		c.WaitUntil(5*time.Second, "it says that it is frozen", func() bool { return c.nodes()[0].Frozen })
	})
}
