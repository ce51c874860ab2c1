package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/lease"
)

func TestClaim_M02_AllThreeFormsOfATaskArePickedUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.put("/test/tasks/by-key", "")
		c.put("/test/tasks/by-both", "")
		c.put("/test/tasks/by-both/props", `{"a":1}`)
		c.put("/test/tasks/by-props/props", `{"b":2}`)
		props := make(chan string, 3)
		c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			props <- claim.ID() + "=" + string(claim.Props())
			return nil
		}))
		c.WaitUntil(time.Second, "all three ran", func() bool { return len(props) == 3 })
		got := []string{<-props, <-props, <-props}
		slices.Sort(got)
		want := []string{`by-both={"a":1}`, "by-key=", `by-props={"b":2}`}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, id := range []string{"by-key", "by-both", "by-props"} {
			c.wantStatus(id, windlass.StatusCompleted)
		}
	})
}

func TestClaim_M03_AnOwnerInTheOldestFormIsRespected(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.put("/test/tasks/a", "")
		c.put("/test/tasks/a/owner", "old-node")
		c.join("n")
		c.Advance(10 * time.Second)
		if c.startsOf("a") != 0 {
			t.Error("a task that is owned was run")
		}
		if d := c.task("a"); d.Node != "old-node" || d.Status != windlass.StatusRunning {
			t.Errorf("task %+v", d)
		}
	})
}

func TestNode_M06_ACorruptValueCostsOnlyItsOwnTask(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		for key, value := range map[string]string{
			"/test/tasks/bad-spec": "{", "/test/nodes/ghost/info": "{{{", "/test/tasks/_metafora": "x",
			"/test/unknown/thing": "keep", "/test/tasks/bad-owner": "", "/test/tasks/bad-owner/owner": `{"node":`,
			"/test/tasks/bad-state": "", "/test/state/bad-state": "][",
		} {
			c.put(key, value)
		}
		corrupt := map[string]int{}
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Events.Corrupt = func(key string, _ error) { corrupt[key]++ }
		})
		c.submit(3, windlass.Spec{})
		c.WaitUntil(time.Second, "the good ones run", c.allRunning(3))
		c.Advance(time.Minute)
		for _, key := range []string{"/test/tasks/bad-spec", "/test/nodes/ghost/info", "/test/state/bad-state"} {
			if corrupt[key] == 0 {
				t.Errorf("%s was not reported", key)
			}
		}
		for id, want := range map[string]windlass.Status{
			"bad-spec": windlass.StatusFault, "bad-state": windlass.StatusFault, "bad-owner": windlass.StatusRunning,
		} {
			c.wantStatus(id, want)
		}
		n.Stop()
		for _, key := range []string{"/test/tasks/bad-spec", "/test/unknown/thing", "/test/tasks/_metafora", "/test/state/bad-state"} {
			if _, err := c.store.Get(t.Context(), key); err != nil {
				t.Errorf("%s was touched: %v", key, err)
			}
		}
	})
}

func TestClaim_M11_ABlockedTaskWaitsForWhatItNeeds(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		order := make(chan string, 10)
		gate := make(chan struct{})
		c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			<-gate
			order <- claim.ID()
			return nil
		}))
		c.Submit([]windlass.Submission{
			{ID: "left"}, {ID: "right"}, {ID: "left|child"}, {ID: "left|child|grandchild"},
			{ID: "orphan|child"}, // its parent was never submitted, which blocks nothing
			{ID: "report", Spec: windlass.Spec{Needs: []string{"left", "right"}}},
		}...)
		if d := c.task("report"); d.Status != windlass.StatusBlocked || !slices.Equal(d.BlockedBy, []string{"left", "right"}) {
			t.Errorf("report: %s, blocked by %q", d.Status, d.BlockedBy)
		}
		c.Advance(5 * time.Second)
		close(gate)
		c.WaitUntil(5*time.Second, "all are done", func() bool { return len(order) == 6 })
		close(order)
		place := map[string]int{}
		for id := range order {
			place[id] = len(place)
		}
		for _, pair := range [][2]string{{"left", "report"}, {"right", "report"}, {"left", "left|child"}, {"left|child", "left|child|grandchild"}} {
			if place[pair[0]] > place[pair[1]] {
				t.Errorf("%s ran before %s: %v", pair[1], pair[0], place)
			}
		}
	})
}

func TestNode_M13_ADoneTaskIsRemovedTogetherWithItsFinalState(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", running(func(_ context.Context, claim *windlass.Claim) error {
			return claim.SetResult(map[string]any{"answer": 42})
		}))
		c.Submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t", Priority: 3}, Props: json.RawMessage(`[1]`)})
		// Siblings with a common beginning must survive it.
		for _, id := range []string{"ab", "a-1"} {
			c.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
		}
		c.WaitFor(time.Second, "a", windlass.StatusCompleted)
		if d := c.task("a"); string(d.Result) != `{"answer":42}` || d.Node != "n" || d.Token == 0 || d.Type != "t" || d.Priority != 3 {
			t.Errorf("%+v", d)
		}
		if kvs := c.collect("/test/tasks/"); len(kvs) != 2 {
			t.Errorf("left in the store: %v", kvs)
		}
		if kvs := c.collect("/test/claims/"); len(kvs) != 0 {
			t.Errorf("records of claims are left: %v", kvs)
		}
	})
}

func TestNode_M15_AHandlerWhoseOwnerKeyIsDeletedByHandIsTold(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n")
		ids := c.submit(2, windlass.Spec{})
		c.WaitUntil(time.Second, "both run", c.allRunning(2))
		c.delete("/test/tasks/" + ids[0] + "/owner")
		c.WaitUntil(time.Second, "the handler was told", func() bool { return len(c.causesOf(ids[0])) == 1 })
		if cause := c.causesOf(ids[0])[0]; !errors.Is(cause, windlass.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		c.WaitUntil(10*time.Second, "it runs again, with a new claim", func() bool { return c.startsOf(ids[0]) == 2 })
		if c.startsOf(ids[1]) != 1 {
			t.Error("another task was disturbed")
		}
	})
}

// errUnanswered is a call whose outcome is unknown.
func errUnanswered() error {
	return &broker.Error{Op: "commit", Kind: broker.ErrUnavailable, Cause: errors.New("no answer came"), Maybe: true}
}

// replace deletes a task and submits it anew with needs.
func (w *cluster) replace(id string, needs ...string) {
	w.t.Helper()
	w.remove(id)
	w.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Needs: needs}})
}

// Regression: a delayed claim was granted on the task that replaced the one it was made for,
// although the new one is blocked.
func TestClaim_M11_ATaskThatWasReplacedOnTheWayIsNotClaimedForTheOneThatWas(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		n := w.joinFaulty("n", "")
		w.submitted(w.client, "blocker", 1)
		w.Advance(5 * time.Second)
		n.Use(`delay-request 3s on commit below "/test/tasks/"`)
		w.submitted(w.client, "a", 1)
		w.Advance(time.Second)
		w.replace("a-0", "blocker-0")
		w.Advance(time.Minute)
		if n := w.startsOf("a-0"); n != 0 {
			t.Errorf("it is blocked, and started %d times", n)
		}
	})
}

// unansweredClaims loses the answers to claims on a task, after a while.
func unansweredClaims(id string, after time.Duration) func(*windlass.Config) {
	return intercept(func(m *interceptor) {
		m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
			results := m.Coordinator.Claim(ctx, wanted)
			for i := range wanted {
				if wanted[i].ID == id {
					<-time.After(after)
					results[i] = coordinator.Result{Err: errUnanswered()}
				}
			}
			return results
		}
	})
}

// Regression: a late claim was adopted for the task that had replaced the claimed one.
func TestClaim_M12_AClaimIsNotAdoptedForATaskThatWasSubmittedSince(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.joinFaulty("n", "", unansweredClaims("a-0", 3*time.Second))
		w.submitted(w.client, "blocker", 1)
		w.Advance(5 * time.Second)
		w.submitted(w.client, "a", 1)
		w.Advance(time.Second)
		w.replace("a-0", "blocker-0")
		w.Advance(time.Minute)
		if n := w.startsOf("a-0"); n != 0 {
			t.Errorf("it is blocked, and started %d times", n)
		}
	})
}

// Regression: a claim of unknown outcome on a task that was then deleted was held for ever,
// without a handler.
func TestClaim_M12_AClaimOnATaskThatWasDeletedIsGivenUp(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.joinFaulty("n", "", unansweredClaims("a-0", 3*time.Second))
		w.Advance(time.Second)
		w.submitted(w.client, "a", 1)
		w.Advance(time.Second)
		w.remove("a-0")
		w.Advance(time.Minute)
		if kv, held := w.holderOf("a-0"); held {
			t.Errorf("%s is held by %s, and nobody is behind it", kv.Key, kv.Value)
		}
	})
}

func TestClaim_M12_AClaimOnADeletedTaskIsAskedAboutUntilThereIsAnAnswer(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		var failed atomic.Bool
		lost := unansweredClaims("a-0", 0)
		w.joinFaulty("n", "", func(cfg *windlass.Config) {
			lost(cfg)
			inner := cfg.Coordinator
			cfg.Coordinator = func(plain coordinator.Coordinator) coordinator.Coordinator {
				m := inner(plain).(*interceptor)
				m.adopt = func(ctx context.Context, ids []string) []coordinator.Result {
					if failed.CompareAndSwap(false, true) {
						w.delete("/test/tasks/a-0")
						<-time.After(time.Second)
						return []coordinator.Result{{Err: errUnanswered()}}
					}
					return plain.Adopt(ctx, ids)
				}
				return m
			}
		})
		w.Advance(time.Second)
		w.submitted(w.client, "a", 1)
		w.Advance(time.Minute)
		if kv, held := w.holderOf("a-0"); held || !failed.Load() {
			t.Errorf("%s is held by %s; asked in vain: %t", kv.Key, kv.Value, failed.Load())
		}
	})
}

// Another node hands the task over while a claim is in flight. The handover key is older
// than the claim and has no effect. Regression: it was left in the store when the task ended.
func TestClaim_ANoteThatAClaimHasOvertakenGoesWithTheTask(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.takes = func(string) time.Duration { return 20 * time.Second }
		n := w.joinFaulty("n", "")
		w.Advance(5 * time.Second)
		n.Use(`delay-request 3s on commit below "/test/tasks/"`)
		ids := w.submitted(w.client, "a", 1)
		w.Advance(time.Second)
		note := "/test/tasks/" + ids[0] + "/handover"
		w.putForAnHour(note, `{"node":"n"}`)
		w.Advance(5 * time.Second)
		n.Use("")
		if owner, held := w.holderOf(ids[0]); !held {
			t.Fatal("nobody holds it")
		} else if kv, err := w.store.Get(t.Context(), note); err != nil || kv.Modified > owner.Created {
			t.Fatalf("the note is not older than the claim: %+v, %v", kv, err)
		}
		w.Advance(time.Minute)
		if _, held := w.holderOf(ids[0]); held {
			t.Error("the task has not ended")
		}
		if kv, err := w.store.Get(t.Context(), note); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("the note is left: %+v, %v", kv, err)
		}
	})
}

// In a rolling upgrade a newer node has written fields and keys that this version does not
// know. They survive every write of this version.
func TestTask_M06_WhatANewerVersionWroteIsKept(t *testing.T) {
	const until = `"2000-01-01T00:00:20Z"` // virtual time begins at midnight
	ids := []string{"sleeps", "fails", "detached"}
	inEach(t, func(t *testing.T, c *cluster) {
		write := func(key, value string) { c.put("/test/"+key, value) }
		read := func(key string) string {
			if kv, err := c.store.Get(t.Context(), "/test/"+key); err == nil {
				return string(kv.Value)
			}
			return ""
		}
		for _, id := range ids {
			state := `"state":"runnable"`
			if id == "sleeps" {
				state = `"state":"sleeping","until":` + until
			}
			write("state/"+id, `{`+state+`,"newer":{"of":"`+id+`"},"errors":[{"timestamp":`+until+`,"error":"e","newer":1}]}`)
			write("history/"+id, `{"claims":1,"interruptions":0,"newer":{"of":"`+id+`"},
				"entries":[{"at":`+until+`,"event":"claimed","node":"new","token":1,"newer":1}]}`)
			write("tasks/"+id+"/newer", "kept")
			write("tasks/"+id, `{"type":"`+id+`"}`)
		}
		write("tasks/waits", `{"needs":["fails"]}`) // for which a mark of the failure stays
		c.join("n", handlers(map[string]run{"sleeps": done, "fails": failing}))
		d := c.detach("detached", "detached")
		c.must(lease.New(c.client, nil).Complete(t.Context(), d.ID, d.Token, nil))
		for i, ended := range []string{"completed", "failed", "completed"} {
			id := ids[i]
			c.WaitUntil(time.Minute, id+" has "+ended, func() bool {
				return strings.Contains(read("state/"+id), `"state":"`+ended+`"`) && strings.Contains(read("history/"+id), `"event":"`+ended+`"`)
			})
			for _, key := range []string{"state/", "history/"} {
				value := read(key + id)
				for _, kept := range []string{`"newer":{"of":"` + id + `"}`, `"newer":1`} {
					if !strings.Contains(value, kept) {
						t.Errorf("%s%s has lost %s: %s", key, id, kept, value)
					}
				}
			}
			if read("tasks/"+id+"/newer") != "kept" {
				t.Errorf("the key below %s is gone", id)
			}
			if read("tasks/"+id) != "" || read("tasks/"+id+"/owner") != "" {
				t.Errorf("%s is not gone", id)
			}
		}
	})
}
