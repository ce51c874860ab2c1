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

// world is a store in memory, in a bubble.
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

// node is a coordinator on a session of its own, over a broker with a plan of
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

func claimOne(c Coordinator, wanted Wanted) Result {
	return c.Claim(context.Background(), []Wanted{wanted})[0]
}

func TestClaim_M11_ExactlyOneOfManySucceedsAndOnlyForATaskThatCanBeClaimed(t *testing.T) {
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
				r := claimOne(c, Wanted{ID: "a"})
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
			t.Errorf("%d of 20 succeeded, %d were told that it is owned", wins, owned)
		}
		c, _, _ := w.node("n", "")
		if r := claimOne(c, Wanted{ID: "nobody"}); !errors.Is(r.Err, ErrGone) {
			t.Errorf("a task that does not exist: %v", r.Err)
		}
		if r := claimOne(c, Wanted{ID: "a|child", Blockers: []string{"a"}}); !errors.Is(r.Err, ErrBlocked) {
			t.Errorf("a task that is blocked: %v", r.Err)
		}
		if r := claimOne(c, Wanted{ID: "b"}); !errors.Is(r.Err, ErrGone) {
			t.Errorf("a task without a key of its own, claimed as if it had one: %v", r.Err)
		}
		if r := claimOne(c, Wanted{ID: "b", PropsOnly: true}); r.Err != nil {
			t.Errorf("a task that exists by its props alone: %v", r.Err)
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
		r := claimOne(c, Wanted{ID: "a"})
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
		if r := claimOne(c, Wanted{ID: "a"}); !errors.Is(r.Err, ErrOwned) && r.Err == nil {
			t.Errorf("%+v", r)
		}
		if got := w.get("/c/tasks/a/owner"); got != "-" {
			t.Errorf("the owner key is %s", got)
		}
		if r := claimOne(c, Wanted{ID: "a"}); r.Err != nil {
			t.Errorf("again: %v", r.Err)
		}
	})
}

// A request that is applied after its outcome was read back as "not ours" is
// what adopting is for.
func TestAdopt_M12_AClaimThatIsAppliedLateTurnsUp(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "spec")
		c, _, _ := w.node("n", "late 5s on commit call 1")
		if r := claimOne(c, Wanted{ID: "a"}); r.Err == nil {
			t.Fatal("it was granted before it was applied")
		}
		if r := c.Adopt(context.Background(), []string{"a"})[0]; !errors.Is(r.Err, ErrOwned) {
			t.Errorf("before it was applied: %v", r.Err)
		}
		time.Sleep(10 * time.Second)
		r := c.Adopt(context.Background(), []string{"a", "nobody"})
		if r[0].Err != nil || r[0].Token == 0 || string(r[0].Spec) != "spec" || !errors.Is(r[1].Err, ErrGone) {
			t.Errorf("after: %+v", r)
		}
		other, _, _ := w.node("n", "") // the same name, another session
		if r := other.Adopt(context.Background(), []string{"a"})[0]; !errors.Is(r.Err, ErrOwned) {
			t.Errorf("a node of the same name took it for its own: %+v", r)
		}
	})
}

func TestEnd_M13_OnlyThePresentOwnerCanEndAClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		w.put("/c/tasks/ab", "")
		w.put("/c/tasks/a/props", "1")
		w.put("/c/commands/a", "x")
		zombie, _, session := w.node("n", "")
		old := claimOne(zombie, Wanted{ID: "a"})
		if err := w.b.Revoke(context.Background(), session); err != nil {
			t.Fatal(err)
		}
		owner, _, _ := w.node("n", "")
		now := claimOne(owner, Wanted{ID: "a"})
		if now.Err != nil || now.Token <= old.Token {
			t.Fatalf("the new claim: %+v after %+v", now, old)
		}
		end := func(c Coordinator, claim Result, kind Kind, state string) error {
			e := claim.Ending(kind)
			if state != "" {
				e.State = []byte(state)
			}
			return c.End(context.Background(), []Ending{e})[0].Err
		}
		for _, kind := range []Kind{Save, Release, Done} {
			if err := end(zombie, old, kind, "zombie"); !errors.Is(err, ErrFenced) {
				t.Errorf("kind %d by the old owner: %v", kind, err)
			}
		}
		if got := w.get("/c/state/a"); got != "-" {
			t.Errorf("the old owner wrote %s", got)
		}
		if err := end(owner, now, Save, "one"); err != nil || w.get("/c/state/a") != "one" {
			t.Errorf("save: %v, %s", err, w.get("/c/state/a"))
		}
		if err := end(owner, now, Done, "two"); err != nil {
			t.Error(err)
		}
		for key, want := range map[string]string{
			"/c/tasks/a": "-", "/c/tasks/a/props": "-", "/c/tasks/a/owner": "-", "/c/claims/a": "-", "/c/commands/a": "-",
			"/c/state/a": "two", "/c/tasks/ab": "",
		} {
			if got := w.get(key); got != want {
				t.Errorf("%s is %q, want %q", key, got, want)
			}
		}
		if err := end(owner, now, Done, "three"); !errors.Is(err, ErrFenced) {
			t.Errorf("done twice: %v", err)
		}
	})
}

func TestEnd_M12_AnEndingWhoseReplyWasLostSucceedsWhenItIsTriedAgain(t *testing.T) {
	for _, kind := range []Kind{Release, Done} {
		for _, plan := range []string{"lose-reply 1s on commit call 2", "lose-request 1s on commit call 2", "late 1ms on commit call 2"} {
			inWorld(t, func(w *world) {
				w.put("/c/tasks/a", "")
				c, _, _ := w.node("n", plan)
				r := claimOne(c, Wanted{ID: "a"})
				e := r.Ending(kind)
				if kind == Done {
					e.State = []byte(fmt.Sprint("done by ", r.Token))
				}
				err := c.End(context.Background(), []Ending{e})[0].Err
				if !broker.MaybeApplied(err) {
					t.Fatalf("%s: %v", plan, err)
				}
				time.Sleep(time.Second)
				e.Again = true
				if err := c.End(context.Background(), []Ending{e})[0].Err; err != nil {
					t.Errorf("%s, kind %d, again: %v", plan, kind, err)
				}
				if got := w.get("/c/tasks/a/owner"); got != "-" {
					t.Errorf("%s: the owner key is %s", plan, got)
				}
			})
		}
	}
}

func TestEnd_BeingRefusedAgainIsNoSuccessForAnotherOwnersState(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		c, _, _ := w.node("n", "")
		r := claimOne(c, Wanted{ID: "a"})
		if _, err := broker.CommitOne(context.Background(), w.b, broker.Txn{Then: []broker.Op{broker.Delete("/c/tasks/a/owner")}}); err != nil {
			t.Fatal(err)
		}
		w.put("/c/state/a", "someone else's")
		for _, kind := range []Kind{Save, Done} {
			e := r.Ending(kind)
			e.State, e.Again = []byte("ours"), true
			err := c.End(context.Background(), []Ending{e})[0].Err
			if !errors.Is(err, ErrFenced) {
				t.Errorf("kind %d: %v", kind, err)
			}
		}
	})
}

func TestNew_RefusesWhatMakesNoKey(t *testing.T) {
	for _, bad := range []Identity{{}, {Namespace: "x"}, {Namespace: "x", Node: "a/b"}, {Node: "n"}} {
		if _, err := New(nil, bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// A save whose request was given up is applied late, when a later one of the
// same claim is stored already.
func TestEnd_M53_AnOlderSaveThatIsAppliedLateUndoesNoNewerOne(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		c, _, _ := w.node("n", "late 5s on commit call 2")
		r := claimOne(c, Wanted{ID: "a"})
		save := func(state string, replaces broker.Revision, again bool) Ended {
			e := r.Ending(Save)
			e.State, e.Replaces, e.Again = []byte(state), replaces, again
			return c.End(context.Background(), []Ending{e})[0]
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

func TestEnd_AStateThatSomeoneElseChangedIsReportedWithItsRevision(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		c, _, _ := w.node("n", "")
		r := claimOne(c, Wanted{ID: "a"})
		by := w.put("/c/state/a", "by hand")
		ours := r.Ending(Save)
		ours.State = []byte("ours")
		e := c.End(context.Background(), []Ending{ours})[0]
		if !errors.Is(e.Err, ErrStateChanged) || e.StateRevision != by {
			t.Errorf("%+v", e)
		}
		ours.Replaces = e.StateRevision
		e = c.End(context.Background(), []Ending{ours})[0]
		if e.Err != nil || w.get("/c/state/a") != "ours" {
			t.Errorf("%+v, the state is %s", e, w.get("/c/state/a"))
		}
	})
}

// The task is deleted and submitted again under a claim: what the claim says is
// about a task that is gone.
func TestEnd_M13_NothingIsSaidAboutATaskThatWasSubmittedUnderTheClaim(t *testing.T) {
	for _, propsOnly := range []bool{false, true} {
		inWorld(t, func(w *world) {
			key := "/c/tasks/a"
			if propsOnly {
				key = "/c/tasks/a/props"
			}
			w.put(key, "1")
			c, _, _ := w.node("n", "")
			r := claimOne(c, Wanted{ID: "a", PropsOnly: propsOnly})
			if _, err := broker.CommitOne(context.Background(), w.b, broker.Txn{Then: []broker.Op{broker.Delete(key)}}); err != nil {
				t.Fatal(err)
			}
			end := func(kind Kind) error {
				e := r.Ending(kind)
				if kind != Release {
					e.State = []byte("old")
				}
				return c.End(context.Background(), []Ending{e})[0].Err
			}
			for range 2 {
				for _, kind := range []Kind{Save, Done} {
					if err := end(kind); !errors.Is(err, ErrGone) {
						t.Errorf("kind %d: %v", kind, err)
					}
				}
				w.put(key, "2")
			}
			other, _, _ := w.node("m", "")
			if r := claimOne(other, Wanted{ID: "a", PropsOnly: propsOnly}); !errors.Is(r.Err, ErrOwned) {
				t.Errorf("claimed while the old claim is held: %+v", r)
			}
			if err := end(Release); err != nil {
				t.Error(err)
			}
			if r := claimOne(other, Wanted{ID: "a", PropsOnly: propsOnly}); r.Err != nil || w.get("/c/state/a") != "-" {
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

func TestRequeue_ALostClaimIsFencedThoughTheTaskIsToRunAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", `{"type":"t"}`)
		n1, _, s1 := w.node("n1", "")
		n2, _, _ := w.node("n2", "")
		g := claimOne(n1, Wanted{ID: "a"})
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		w.requeue("a", g.Created)
		if err := w.b.Revoke(context.Background(), s1); err != nil {
			t.Fatal(err)
		}
		if r := claimOne(n2, Wanted{ID: "a"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		e := g.Ending(Done)
		e.State = []byte(`{"state":"completed"}`)
		for range 5 {
			if r := n1.End(context.Background(), []Ending{e})[0]; !errors.Is(r.Err, ErrFenced) {
				t.Errorf("%+v, want ErrFenced", r)
			}
		}
	})
}

func TestRequeue_ASupersededCommandIsToldThoughTheTaskIsToRunAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", `{"type":"t"}`)
		n1, _, _ := w.node("n1", "")
		g := claimOne(n1, Wanted{ID: "a"})
		if g.Err != nil {
			t.Fatal(g.Err)
		}
		first := w.put("/c/taskcmd/a", `{"message":"kill"}`)
		w.requeue("a", g.Created)
		e := g.Ending(Done)
		e.State, e.Command = []byte(`{"state":"killed"}`), first
		e.Command = first + 1000 // whatever the key is called, it is another one
		for range 5 {
			if r := n1.End(context.Background(), []Ending{e})[0]; !errors.Is(r.Err, ErrSuperseded) {
				t.Errorf("%+v, want ErrSuperseded", r)
			}
		}
	})
}
