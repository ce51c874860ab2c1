package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store in memory, in virtual time.
type world struct {
	t     *testing.T
	store *memory.Store
	b     broker.Broker
}

func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		test(&world{t: t, store: store, b: store.Broker()})
	})
}

// node returns a coordinator with a session of its own, over a broker with a plan of
// faults.
func (w *world) node(name, plan string) (Coordinator, *faulty.Broker, broker.SessionID) {
	w.t.Helper()
	f := faulty.Wrap(w.store.Broker(), faulty.MustParse("seed 1\n"+plan))
	s, err := w.b.Grant(context.Background(), "", time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := New(f, Identity{Namespace: "c", Node: name, Session: s.ID, Incarnation: name})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = f.Close() })
	return c, f, s.ID
}

func (w *world) put(key, value string) broker.Revision {
	w.t.Helper()
	r, err := broker.CommitOne(context.Background(), w.b, broker.Txn{Then: []broker.Op{broker.Put(key, []byte(value))}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Revision
}

func (w *world) get(key string) string {
	kv, err := w.b.Get(context.Background(), key)
	if errors.Is(err, broker.ErrNotFound) {
		return "-"
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return string(kv.Value)
}

func (w *world) delete(key string) {
	w.t.Helper()
	if _, err := broker.CommitOne(context.Background(), w.b, broker.Txn{Then: []broker.Op{broker.Delete(key)}}); err != nil {
		w.t.Fatal(err)
	}
}

func claimOne(c Coordinator, wanted Wanted) Result {
	return c.Claim(context.Background(), []Wanted{wanted})[0]
}

func endOne(c Coordinator, e Ending) Ended { return c.End(context.Background(), []Ending{e})[0] }

func adoptOne(c Coordinator, id string) Result { return c.Adopt(context.Background(), []string{id})[0] }

// claimed returns a node, over a broker with a plan of faults, that has claimed task a.
func (w *world) claimed(plan string) (Coordinator, Result, broker.SessionID) {
	w.t.Helper()
	w.put("/c/tasks/a", `{"type":"t"}`)
	c, _, session := w.node("n", plan)
	r := claimOne(c, Wanted{Ref: Ref{ID: "a"}})
	if r.Err != nil {
		w.t.Fatal(r.Err)
	}
	return c, r, session
}

// ending returns an ending of a claim with a state.
func ending(r Result, kind Kind, state string) Ending {
	e := r.Ending(kind)
	e.State = []byte(state)
	return e
}

func TestClaim_M11_ExactlyOneOfManySucceedsAndOnlyForAClaimableTask(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", `{"type":"x"}`)
		w.put("/c/tasks/a/props", `1`)
		w.put("/c/state/a", `{"state":"runnable"}`)
		w.put("/c/tasks/b/props", `2`)
		w.put("/c/tasks/a|child", "")
		var wins, owned int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 20 {
			c, _, _ := w.node(fmt.Sprint("n", i), "")
			all.Go(func() {
				r := claimOne(c, Wanted{Ref: Ref{ID: "a"}})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r.Err == nil:
					wins++
					if string(r.Spec) != `{"type":"x"}` || string(r.Props) != "1" || string(r.State) != `{"state":"runnable"}` {
						t.Errorf("it came with %q, %q, %q", r.Spec, r.Props, r.State)
					}
				case errors.Is(r.Err, ErrOwned):
					owned++
				default:
					t.Error(r.Err)
				}
			})
		}
		all.Wait()
		if wins != 1 || owned != 19 {
			t.Errorf("%d of 20 succeeded, %d were refused as owned", wins, owned)
		}
		c, _, _ := w.node("n", "")
		for _, tt := range []struct {
			name   string
			wanted Wanted
			want   error
		}{
			{"a task that does not exist", Wanted{Ref: Ref{ID: "nobody"}}, ErrGone},
			{"a blocked task", Wanted{Ref: Ref{ID: "a|child"}, Blockers: []string{"a"}}, ErrBlocked},
			{"a task without a key of its own, claimed as if it had one", Wanted{Ref: Ref{ID: "b"}}, ErrGone},
			{"a task that exists by its properties alone", Wanted{Ref: Ref{ID: "b", PropsOnly: true}}, nil},
		} {
			if r := claimOne(c, tt.wanted); !errors.Is(r.Err, tt.want) {
				t.Errorf("%s: %v", tt.name, r.Err)
			}
		}
		if got := w.get("/c/tasks/b/owner"); got != `{"node":"n"}` {
			t.Errorf("the owner key is %s", got)
		}
	})
}

func TestClaim_M12_ALostReplyIsReadBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		c, _, session := w.node("n", "lose-reply 1s on commit call 1")
		r := claimOne(c, Wanted{Ref: Ref{ID: "a"}})
		kv, err := w.b.Get(context.Background(), "/c/tasks/a/owner")
		if r.Err != nil || err != nil || kv.Session != session || r.Token != kv.Created {
			t.Errorf("%+v; the owner key is %+v, %v", r, kv, err)
		}
	})
}

func TestClaim_M12_ALostRequestIsNoClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		c, _, _ := w.node("n", "lose-request 1s on commit call 1")
		if r := claimOne(c, Wanted{Ref: Ref{ID: "a"}}); r.Err == nil {
			t.Errorf("%+v", r)
		}
		if got := w.get("/c/tasks/a/owner"); got != "-" {
			t.Errorf("the owner key is %s", got)
		}
		if r := claimOne(c, Wanted{Ref: Ref{ID: "a"}}); r.Err != nil {
			t.Errorf("again: %v", r.Err)
		}
	})
}

// A request can be applied after its claim was read back as not held.
func TestAdopt_M12_FindsAClaimThatWasAppliedLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "spec")
		c, _, _ := w.node("n", "late 5s on commit call 1")
		if r := claimOne(c, Wanted{Ref: Ref{ID: "a"}}); r.Err == nil {
			t.Fatal("it was granted before it was applied")
		}
		if r := adoptOne(c, "a"); !errors.Is(r.Err, ErrOwned) {
			t.Errorf("before it was applied: %v", r.Err)
		}
		time.Sleep(10 * time.Second)
		r := c.Adopt(context.Background(), []string{"a", "nobody"})
		if r[0].Err != nil || r[0].Token == 0 || string(r[0].Spec) != "spec" || !errors.Is(r[1].Err, ErrGone) {
			t.Errorf("after: %+v", r)
		}
		other, _, _ := w.node("n", "") // the same name, another session
		if r := adoptOne(other, "a"); !errors.Is(r.Err, ErrOwned) {
			t.Errorf("a node of the same name adopted it: %+v", r)
		}
	})
}

func TestEnd_M13_OnlyThePresentOwnerCanEndAClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		zombie, old, session := w.claimed("")
		w.put("/c/tasks/ab", "")
		w.put("/c/tasks/a/props", "1")
		w.put("/c/commands/a", "x")
		if err := w.b.Revoke(context.Background(), session); err != nil {
			t.Fatal(err)
		}
		owner, _, _ := w.node("n", "")
		now := claimOne(owner, Wanted{Ref: Ref{ID: "a"}})
		if now.Err != nil || now.Token <= old.Token {
			t.Fatalf("the new claim: %+v after %+v", now, old)
		}
		for _, kind := range []Kind{Save, Release, Done} {
			if e := endOne(zombie, ending(old, kind, "zombie")); !errors.Is(e.Err, ErrFenced) {
				t.Errorf("kind %d by the old owner: %v", kind, e.Err)
			}
		}
		if got := w.get("/c/state/a"); got != "-" {
			t.Errorf("the old owner wrote %s", got)
		}
		if e := endOne(owner, ending(now, Save, "one")); e.Err != nil || w.get("/c/state/a") != "one" {
			t.Errorf("save: %v, %s", e.Err, w.get("/c/state/a"))
		}
		if e := endOne(owner, ending(now, Done, "two")); e.Err != nil {
			t.Error(e.Err)
		}
		for key, want := range map[string]string{
			"/c/tasks/a": "-", "/c/tasks/a/props": "-", "/c/tasks/a/owner": "-", "/c/claims/a": "-", "/c/commands/a": "-",
			"/c/state/a": "two", "/c/tasks/ab": "",
		} {
			if got := w.get(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if e := endOne(owner, ending(now, Done, "three")); !errors.Is(e.Err, ErrFenced) {
			t.Errorf("done twice: %v", e.Err)
		}
	})
}

func TestEnd_M12_AnEndingWithAnUnknownOutcomeSucceedsWhenRetried(t *testing.T) {
	for _, kind := range []Kind{Release, Done} {
		for _, plan := range []string{"lose-reply 1s on commit call 2", "lose-request 1s on commit call 2", "late 1ms on commit call 2"} {
			inWorld(t, func(w *world) {
				c, r, _ := w.claimed(plan)
				e := r.Ending(kind)
				if kind == Done {
					e.State = []byte(fmt.Sprint("done by ", r.Token))
				}
				if err := endOne(c, e).Err; !broker.MaybeApplied(err) {
					t.Fatalf("%s: %v", plan, err)
				}
				time.Sleep(time.Second)
				e.Again = true
				if err := endOne(c, e).Err; err != nil {
					t.Errorf("%s, kind %d, again: %v", plan, kind, err)
				}
				if got := w.get("/c/tasks/a/owner"); got != "-" {
					t.Errorf("%s: the owner key is %s", plan, got)
				}
			})
		}
	}
}

func TestEnd_ARetryIsFencedIfAnotherOwnerWroteTheState(t *testing.T) {
	inWorld(t, func(w *world) {
		c, r, _ := w.claimed("")
		w.delete("/c/tasks/a/owner")
		w.put("/c/state/a", "someone else's")
		for _, kind := range []Kind{Save, Done} {
			e := ending(r, kind, "ours")
			e.Again = true
			if err := endOne(c, e).Err; !errors.Is(err, ErrFenced) {
				t.Errorf("kind %d: %v", kind, err)
			}
		}
	})
}

func TestNew_RefusesInvalidNames(t *testing.T) {
	for _, bad := range []Identity{{}, {Namespace: "x"}, {Namespace: "x", Node: "a/b"}, {Node: "n"}} {
		if _, err := New(nil, bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// A save whose request was given up is applied when a later save of the same claim is
// already stored.
func TestEnd_M53_ALateSaveDoesNotUndoANewerOne(t *testing.T) {
	inWorld(t, func(w *world) {
		c, r, _ := w.claimed("late 5s on commit call 2")
		save := func(state string, replaces broker.Revision, again bool) Ended {
			e := ending(r, Save, state)
			e.Replaces, e.Again = replaces, again
			return endOne(c, e)
		}
		if e := save("one", 0, false); !broker.MaybeApplied(e.Err) {
			t.Fatalf("%+v", e)
		}
		one := save("one", 0, true)
		two := save("two", one.StateRevision, false)
		if one.Err != nil || two.Err != nil {
			t.Fatalf("%+v, %+v", one, two)
		}
		time.Sleep(10 * time.Second)
		if got := w.get("/c/state/a"); got != "two" {
			t.Errorf("the state is %s", got)
		}
	})
}

func TestEnd_ReportsTheRevisionOfAStateThatSomeoneElseChanged(t *testing.T) {
	inWorld(t, func(w *world) {
		c, r, _ := w.claimed("")
		by := w.put("/c/state/a", "by hand")
		ours := ending(r, Save, "ours")
		e := endOne(c, ours)
		if !errors.Is(e.Err, ErrStateChanged) || e.StateRevision != by {
			t.Errorf("%+v", e)
		}
		ours.Replaces = e.StateRevision
		e = endOne(c, ours)
		if e.Err != nil || w.get("/c/state/a") != "ours" {
			t.Errorf("%+v, the state is %s", e, w.get("/c/state/a"))
		}
	})
}

// The task is deleted and submitted again under a claim, which is about the old task.
func TestEnd_M13_DoesNotAffectATaskThatWasSubmittedUnderTheClaim(t *testing.T) {
	for _, propsOnly := range []bool{false, true} {
		inWorld(t, func(w *world) {
			key := "/c/tasks/a"
			if propsOnly {
				key = "/c/tasks/a/props"
			}
			w.put(key, "1")
			c, _, _ := w.node("n", "")
			r := claimOne(c, Wanted{Ref: Ref{ID: "a", PropsOnly: propsOnly}})
			w.delete(key)
			for range 2 {
				for _, kind := range []Kind{Save, Done} {
					if err := endOne(c, ending(r, kind, "old")).Err; !errors.Is(err, ErrGone) {
						t.Errorf("kind %d: %v", kind, err)
					}
				}
				w.put(key, "2")
			}
			other, _, _ := w.node("m", "")
			if r := claimOne(other, Wanted{Ref: Ref{ID: "a", PropsOnly: propsOnly}}); !errors.Is(r.Err, ErrOwned) {
				t.Errorf("claimed while the old claim is held: %+v", r)
			}
			if err := endOne(c, r.Ending(Release)).Err; err != nil {
				t.Error(err)
			}
			if r := claimOne(other, Wanted{Ref: Ref{ID: "a", PropsOnly: propsOnly}}); r.Err != nil || w.get("/c/state/a") != "-" {
				t.Errorf("%+v, the state is %s", r, w.get("/c/state/a"))
			}
		})
	}
}

func (w *world) requeue(id string, created broker.Revision) {
	w.t.Helper()
	v, err := json.Marshal(Requeue{Created: created, Spec: []byte(`{"type":"t"}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.put("/c/tasks/"+id+"/requeue", string(v))
}

func TestRequeue_ALostClaimIsFencedAlthoughTheTaskRunsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		n1, g, s1 := w.claimed("")
		n2, _, _ := w.node("n2", "")
		w.requeue("a", g.Created)
		if err := w.b.Revoke(context.Background(), s1); err != nil {
			t.Fatal(err)
		}
		if r := claimOne(n2, Wanted{Ref: Ref{ID: "a"}}); r.Err != nil {
			t.Fatal(r.Err)
		}
		for range 5 {
			if r := endOne(n1, ending(g, Done, `{"state":"completed"}`)); !errors.Is(r.Err, ErrFenced) {
				t.Errorf("%+v, want ErrFenced", r)
			}
		}
	})
}

func TestRequeue_ReportsASupersededCommandAlthoughTheTaskRunsAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		c, g, _ := w.claimed("")
		w.requeue("a", g.Created)
		e := ending(g, Done, `{"state":"killed"}`)
		e.Command = w.put("/c/commands/a", `{"message":"kill"}`) - 1 // an earlier command
		for range 5 {
			if r := endOne(c, e); !errors.Is(r.Err, ErrSuperseded) {
				t.Errorf("%+v, want ErrSuperseded", r)
			}
		}
	})
}
