package coordinator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

func TestClaim_M11_LooksAfterTheGrantForTheBlockersThatHaveNoCondition(t *testing.T) {
	blockers := make([]string, 200)
	for i := range blockers {
		blockers[i] = fmt.Sprint("b", i)
	}
	for _, c := range []struct {
		name, there string // below tasks/
		wanted      Wanted
		plan        string
		refused     error
		blocked     bool
	}{
		{name: "none is there"},
		{name: "the last with a condition", there: "b62", refused: ErrBlocked},
		{name: "a failure with a condition", there: "b62/failed", refused: ErrBlocked},
		{name: "the first without", there: "b63", blocked: true},
		{name: "the last of a transaction", there: "b126", blocked: true},
		{name: "the last", there: "b199", blocked: true},
		{name: "a failure", there: "b127/failed", blocked: true},
		{name: "properties alone block nothing", there: "b127/props"},
		{name: "a task without a key of its own", there: "b62", wanted: Wanted{Ref: Ref{PropsOnly: true}}, blocked: true},
		{name: "to carry out a command", there: "b199", wanted: Wanted{Command: 2}},
		{name: "to be killed", there: "b199/failed", wanted: Wanted{Skipped: "b199", SkippedAt: 3}},
		{name: "not known", plan: "lose-reply 1s on commit call 2", blocked: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.put(map[bool]string{false: "/c/tasks/a", true: "/c/tasks/a/props"}[c.wanted.PropsOnly], "1")
				w.put("/c/commands/a", "")
				if c.there != "" {
					w.put("/c/tasks/"+c.there, `{"state":"failed","skip":true}`)
				}
				node, _, session := w.node("n", c.plan)
				c.wanted.ID, c.wanted.Blockers = "a", blockers
				r := claimOne(node, c.wanted)
				if !errors.Is(r.Err, c.refused) || r.Blocked != c.blocked {
					t.Fatalf("%v, blocked %t", r.Err, r.Blocked)
				}
				if kv, err := w.b.Get(context.Background(), "/c/tasks/a/owner"); (err == nil && kv.Session == session) != (c.refused == nil) {
					t.Errorf("the owner is %+v, %v", kv, err)
				}
				if r.Err != nil || !c.blocked {
					return
				}
				if e := endOne(node, r.Ending(Release)); e.Err != nil || w.get("/c/tasks/a/owner") != "-" {
					t.Errorf("released: %v", e.Err)
				}
			})
		})
	}
}

func TestClaim_M11_AClaimOfManyTasksLooksForTheBlockersOfEach(t *testing.T) {
	inWorld(t, func(w *world) {
		var wanted []Wanted
		for i := range 3 {
			w.put(fmt.Sprint("/c/tasks/a", i), "")
			var blockers []string
			for k := range 300 {
				blockers = append(blockers, fmt.Sprintf("b%d-%d", i, k))
			}
			wanted = append(wanted, Wanted{Ref: Ref{ID: fmt.Sprint("a", i)}, Blockers: blockers})
		}
		w.put("/c/tasks/b1-250", "")
		node, _, _ := w.node("n", "")
		for i, r := range node.Claim(context.Background(), wanted) {
			if r.Err != nil || r.Blocked != (i == 1) {
				t.Errorf("a%d: %v, blocked %t", i, r.Err, r.Blocked)
			}
		}
	})
}

func TestWanted_HasAsManyConditionsAsATransactionCan(t *testing.T) {
	c := &claims{}
	for _, propsOnly := range []bool{false, true} {
		txn := c.claimTxn(Wanted{Ref: Ref{ID: "a", PropsOnly: propsOnly}, Blockers: make([]string, 200)})
		if n := len(txn.If); n > broker.TxnOpsMax || n < broker.TxnOpsMax-1 {
			t.Errorf("%d conditions", n)
		}
	}
}

// growing is a broker in which a job that is looked for stores one below it and ends.
type growing struct {
	broker.Broker
	w     *world
	grown bool
}

func (g *growing) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	for _, txn := range txns {
		if len(txn.Then) == 0 && !g.grown {
			g.grown = true
			g.w.put("/c/tree/a_t/b_t/c_t", "{}")
			g.w.put("/c/tasks/a_t|b_t|c_t", "")
			g.w.delete("/c/tasks/a_t|b_t")
		}
	}
	return g.Broker.Commit(ctx, txns...)
}

func TestClaim_M11_AJobThatEndsWhileItIsLookedForLeavesNoneBelowItUnseen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/sum", "")
		for _, job := range []string{"a_t", "a_t/b_t", "a_t/x_t"} {
			w.put("/c/tree/"+job, "{}")
		}
		w.put("/c/tasks/a_t|b_t", "")
		s, err := w.b.Grant(context.Background(), "", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(&growing{Broker: w.b, w: w}, Identity{Namespace: "c", Node: "n", Session: s.ID, Incarnation: "n"})
		if err != nil {
			t.Fatal(err)
		}
		for _, blocked := range []bool{true, true, false} {
			r := claimOne(c, Wanted{Ref: Ref{ID: "sum"}, Blockers: []string{"a_t", "a_t|*"}})
			if r.Err != nil || r.Blocked != blocked {
				t.Fatalf("%v, blocked %t, want %t", r.Err, r.Blocked, blocked)
			}
			if e := endOne(c, r.Ending(Release)); e.Err != nil {
				t.Fatal(e.Err)
			}
			if r.Blocked && w.get("/c/tasks/a_t|b_t|c_t") != "-" {
				w.put("/c/tasks/a_t|b_t|c_t/failed", "")
				w.delete("/c/tasks/a_t|b_t|c_t")
			} else {
				w.delete("/c/tasks/a_t|b_t|c_t/failed")
			}
		}
	})
}
