package windlasstest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// claims collects the claims on one task in order. Their handlers return only long after.
type claims struct {
	mu  sync.Mutex
	all []*windlass.Claim
}

func (cs *claims) run(_ context.Context, claim *windlass.Claim) error {
	cs.mu.Lock()
	cs.all = append(cs.all, claim)
	cs.mu.Unlock()
	<-time.After(10 * ttl)
	return nil
}

func (cs *claims) get(i int) *windlass.Claim {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.all[i]
}

// taken runs a test with two claims on a task, the first of a node that is cut off and alive.
func taken(t *testing.T, test func(t *testing.T, c *windlasstest.Cluster, first, second *windlass.Claim)) {
	windlasstest.TestWith(t, windlasstest.Options{AllowOverlaps: true}, func(t *testing.T, c *windlasstest.Cluster) {
		var cs claims
		start(c, config(cs.run), "a", "b").Partition()
		c.Advance(ttl + time.Second)
		test(t, c, cs.get(0), cs.get(1))
	})
}

func TestLedger_KeepsWhatTheHighestTokenWrote(t *testing.T) {
	taken(t, func(t *testing.T, c *windlasstest.Cluster, first, second *windlass.Claim) {
		ledger := c.NewLedger()
		got := 0
		if found, err := ledger.Read(first, &got); found || err != nil {
			t.Errorf("before anything was written: %t, %v", found, err)
		}
		for i, claim := range []*windlass.Claim{first, first, second} {
			noError(t, ledger.Write(claim, i))
		}
		if err := ledger.Write(first, 7); !errors.Is(err, windlasstest.ErrStale) {
			t.Errorf("a stale write: %v", err)
		}
		if found, err := ledger.Read(second, &got); !found || err != nil || got != 2 {
			t.Errorf("it reads %d: %t, %v", got, found, err)
		}
		e := ledger.Entry("task")
		if e.Writes != 3 || e.Token != second.Token() || string(e.Value) != "2" || ledger.Refused() != 1 {
			t.Errorf("%+v, and %d were refused", e, ledger.Refused())
		}
	})
}

func TestLedger_AReadFencesEarlierClaimsOff(t *testing.T) {
	taken(t, func(t *testing.T, c *windlasstest.Cluster, first, second *windlass.Claim) {
		ledger := c.NewLedger()
		got := 0
		_, err := ledger.Read(second, &got)
		noError(t, err)
		if err := ledger.Write(first, 1); !errors.Is(err, windlasstest.ErrStale) {
			t.Errorf("a write: %v", err)
		}
		if _, err := ledger.Read(first, &got); !errors.Is(err, windlasstest.ErrStale) {
			t.Errorf("a read: %v", err)
		}
		if ledger.Refused() != 2 || ledger.Entry("task").Writes != 0 {
			t.Errorf("%+v, and %d were refused", ledger.Entry("task"), ledger.Refused())
		}
	})
}

func TestLedger_RefusesTheDeadWhateverTheirToken(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		var cs claims
		n := start(c, config(cs.run), "a")
		ledger := c.NewLedger()
		noError(t, ledger.Write(cs.get(0), 1))
		n.Kill()
		if err := ledger.Write(cs.get(0), 2); !errors.Is(err, windlasstest.ErrKilled) {
			t.Errorf("a write: %v", err)
		}
		got := 0
		if _, err := ledger.Read(cs.get(0), &got); !errors.Is(err, windlasstest.ErrKilled) || got != 0 {
			t.Errorf("a read: %d, %v", got, err)
		}
		if ledger.Refused() != 0 || string(ledger.Entry("task").Value) != "1" {
			t.Errorf("%+v, and %d were refused as stale", ledger.Entry("task"), ledger.Refused())
		}
	})
}

func TestLedger_AGoroutineThatAHandlerLeftDiesWithItsNode(t *testing.T) {
	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
		ledger := c.NewLedger()
		var claim *windlass.Claim
		n := c.Start("a", config(func(_ context.Context, cl *windlass.Claim) error {
			claim = cl
			return nil
		}))
		c.Submit(windlass.Submission{ID: "task"})
		c.WaitFor(time.Minute, "task", windlass.StatusCompleted)
		noError(t, ledger.Write(claim, 1)) // its process lives
		n.Kill()
		if err := ledger.Write(claim, 2); !errors.Is(err, windlasstest.ErrKilled) {
			t.Errorf("a write: %v", err)
		}
	})
}

func TestLedger_WhatIsNoJSONIsRefusedAndChangesNothing(t *testing.T) {
	taken(t, func(t *testing.T, c *windlasstest.Cluster, first, _ *windlass.Claim) {
		ledger := c.NewLedger()
		if err := ledger.Write(first, make(chan int)); err == nil || ledger.Entry("task").Token != 0 {
			t.Errorf("%v, %+v", err, ledger.Entry("task"))
		}
	})
}
