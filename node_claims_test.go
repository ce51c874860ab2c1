package windlass_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

func TestClaim_M02_AllThreeFormsOfATaskArePickedUp(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		put := func(key, value string) {
			if _, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(key, []byte(value))}}); err != nil {
				t.Fatal(err)
			}
		}
		put("/test/tasks/by-key", "")
		put("/test/tasks/by-both", "")
		put("/test/tasks/by-both/props", `{"a":1}`)
		put("/test/tasks/by-props/props", `{"b":2}`)
		props := make(chan string, 3)
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				props <- claim.ID() + "=" + string(claim.Props())
				return nil
			})
		})
		c.eventually(time.Second, "all three ran", func() bool { return len(props) == 3 })
		got := []string{<-props, <-props, <-props}
		slices.Sort(got)
		want := []string{`by-both={"a":1}`, "by-key=", `by-props={"b":2}`}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for _, id := range []string{"by-key", "by-both", "by-props"} {
			if s := c.status(id); s != windlass.StatusCompleted {
				t.Errorf("%s is %s", id, s)
			}
		}
		n.leave()
	})
}

func TestClaim_M03_AnOwnerInTheOldestFormIsRespected(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		for _, kv := range [][2]string{{"/test/tasks/a", ""}, {"/test/tasks/a/owner", "old-node"}} {
			if _, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(kv[0], []byte(kv[1]))}}); err != nil {
				t.Fatal(err)
			}
		}
		n := c.join("n")
		c.sleep(10 * time.Second)
		if c.startsOf("a") != 0 {
			t.Error("a task that is owned was run")
		}
		d, err := c.client.Task(t.Context(), "a")
		if err != nil || d.Node != "old-node" || d.Status != windlass.StatusRunning {
			t.Errorf("task %+v, %v", d, err)
		}
		n.leave()
	})
}

func TestNode_M04_ASecondNodeOfALiveNameIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		first := c.join("same")
		c.eventually(time.Second, "the first is there", func() bool { return len(c.nodes()) == 1 })
		second := c.join("same")
		<-second.ended
		if !errors.Is(second.err, windlass.ErrNameTaken) || !strings.Contains(second.err.Error(), `"same"`) {
			t.Errorf("the second ended with %v", second.err)
		}
		c.submit(1, windlass.Spec{})
		c.eventually(time.Second, "the first still works", c.allRunning(1))
		first.leave()
	})
}

func TestNode_M06_ACorruptValueCostsOnlyItsOwnTask(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		for key, value := range map[string]string{
			"/test/tasks/bad-spec": "{", "/test/nodes/ghost/info": "{{{", "/test/tasks/_metafora": "x",
			"/test/unknown/thing": "keep", "/test/tasks/bad-owner": "", "/test/tasks/bad-owner/owner": `{"node":`,
			"/test/tasks/bad-state": "", "/test/state/bad-state": "][",
		} {
			if _, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Put(key, []byte(value))}}); err != nil {
				t.Fatal(err)
			}
		}
		corrupt := map[string]int{}
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Events.Corrupt = func(key string, _ error) { corrupt[key]++ }
		})
		c.submit(3, windlass.Spec{})
		c.eventually(time.Second, "the good ones run", c.allRunning(3))
		c.sleep(time.Minute)
		for _, key := range []string{"/test/tasks/bad-spec", "/test/nodes/ghost/info", "/test/state/bad-state"} {
			if corrupt[key] == 0 {
				t.Errorf("%s was not reported", key)
			}
		}
		for id, want := range map[string]windlass.Status{
			"bad-spec": windlass.StatusFault, "bad-state": windlass.StatusFault, "bad-owner": windlass.StatusRunning,
		} {
			if got := c.status(id); got != want {
				t.Errorf("%s is %s, want %s", id, got, want)
			}
		}
		n.leave()
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
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				<-gate
				order <- claim.ID()
				return nil
			})
		})
		for _, s := range []windlass.Submission{
			{ID: "left"}, {ID: "right"}, {ID: "left|child"}, {ID: "left|child|grandchild"},
			{ID: "orphan|child"}, // its parent was never submitted, which blocks nothing
		} {
			if err := c.client.Submit(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "report", Spec: windlass.Spec{Needs: []string{"left", "right"}}}); err != nil {
			t.Fatal(err)
		}
		d, err := c.client.Task(t.Context(), "report")
		if err != nil || d.Status != windlass.StatusBlocked || !slices.Equal(d.BlockedBy, []string{"left", "right"}) {
			t.Errorf("report: %s, blocked by %q, %v", d.Status, d.BlockedBy, err)
		}
		c.sleep(5 * time.Second)
		close(gate)
		c.eventually(5*time.Second, "all are done", func() bool { return len(order) == 6 })
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
		n.leave()
	})
}

func TestNode_M13_ADoneTaskIsRemovedTogetherWithItsFinalState(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				return claim.SetResult(map[string]any{"answer": 42})
			})
		})
		err := c.client.Submit(t.Context(), windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t", Priority: 3}, Props: json.RawMessage(`[1]`)})
		if err != nil {
			t.Fatal(err)
		}
		// Siblings with a common beginning must survive it.
		for _, id := range []string{"ab", "a-1"} {
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id, Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}}); err != nil {
				t.Fatal(err)
			}
		}
		c.eventually(time.Second, "a is done", func() bool { return c.status("a") == windlass.StatusCompleted })
		d, err := c.client.Task(t.Context(), "a")
		if err != nil || string(d.Result) != `{"answer":42}` || d.Node != "n" || d.Token == 0 || d.Type != "t" || d.Priority != 3 {
			t.Errorf("%+v, %v", d, err)
		}
		kvs, _, err := broker.Collect(t.Context(), c.store, "/test/tasks/")
		if err != nil || len(kvs) != 2 {
			t.Errorf("left in the store: %v, %v", kvs, err)
		}
		if n := len(claimsLeft(t, c)); n != 0 {
			t.Errorf("%d records of claims left", n)
		}
		n.leave()
	})
}

func claimsLeft(t *testing.T, c *cluster) []broker.KV {
	kvs, _, err := broker.Collect(t.Context(), c.store, "/test/claims/")
	if err != nil {
		t.Fatal(err)
	}
	return kvs
}

func TestNode_M14_ANodeThatCannotReachTheBrokerStopsBeforeOthersStart(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var cut broker.Broker
		a := c.join("a", func(cfg *windlass.Config) { cut = cfg.Broker })
		c.submit(20, windlass.Spec{})
		c.eventually(time.Second, "all run", c.allRunning(20))
		b := c.join("b")
		c.eventually(time.Minute, "b has a part", func() bool { return c.runningOn("b") > 0 && c.runningOn("a")+c.runningOn("b") == 20 })
		cut.Close() // a is alive and hears nothing any more
		took := c.eventually(30*time.Second, "b has all", func() bool { return c.runningOn("b") == 20 })
		t.Logf("taken over after %v", took)
		if took > 17*time.Second {
			t.Errorf("taken over after %v; the session's TTL is 15s", took)
		}
		for _, id := range []string{"task-000"} {
			for _, cause := range c.causesOf(id) {
				if !errors.Is(cause, windlass.ErrLost) && !errors.Is(cause, windlass.ErrReleased) {
					t.Errorf("%s was stopped because of %v", id, cause)
				}
			}
		}
		// The overlap check of inCluster is the point of this test.
		a.leave()
		b.leave()
	})
}

func TestNode_M15_AHandlerWhoseOwnerKeyIsDeletedByHandIsTold(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		ids := c.submit(2, windlass.Spec{})
		c.eventually(time.Second, "both run", c.allRunning(2))
		if _, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Delete("/test/tasks/" + ids[0] + "/owner")}}); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Second, "the handler was told", func() bool { return len(c.causesOf(ids[0])) == 1 })
		if cause := c.causesOf(ids[0])[0]; !errors.Is(cause, windlass.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		c.eventually(10*time.Second, "it runs again, with a new claim", func() bool { return c.startsOf(ids[0]) == 2 })
		if c.startsOf(ids[1]) != 1 {
			t.Error("another task was disturbed")
		}
		n.leave()
	})
}

func TestNode_ALostRegistrationMakesANewIncarnation(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.submit(3, windlass.Spec{})
		c.eventually(time.Second, "all run", c.allRunning(3))
		before := c.nodes()[0].Incarnation
		if _, err := broker.CommitOne(t.Context(), c.store, broker.Txn{Then: []broker.Op{broker.Delete("/test/nodes/n/info")}}); err != nil {
			t.Fatal(err)
		}
		c.eventually(20*time.Second, "it is back as another", func() bool {
			nodes := c.nodes()
			return len(nodes) == 1 && nodes[0].Incarnation != before
		})
		c.eventually(20*time.Second, "all run again", c.allRunning(3))
		n.leave()
	})
}

func (c *cluster) nodes() []windlass.NodeStatus {
	c.t.Helper()
	nodes, err := c.client.Nodes(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	return nodes
}

func TestNode_M16_CloseGivesEverythingBackAndIsBounded(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		release := make(chan struct{})
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.ShutdownGrace = 3 * time.Second
			cfg.Handlers["deaf"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error {
				<-release // ignores its context
				return nil
			})
		})
		c.submit(5, windlass.Spec{})
		c.eventually(time.Second, "all run", c.allRunning(5))
		start := time.Now()
		if err := n.leave(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("closing took %v although all handlers returned at once", took)
		}
		if len(c.nodes()) != 0 || len(claimsLeft(t, c)) != 0 {
			t.Errorf("left: nodes %v, claims %v", c.nodes(), claimsLeft(t, c))
		}
		deaf := c.join("deaf", func(cfg *windlass.Config) {
			cfg.ShutdownGrace = 3 * time.Second
			cfg.Handlers = map[string]windlass.NewHandler{"deaf": windlass.HandlerFunc(func(context.Context, *windlass.Claim) error {
				<-release
				return nil
			})}
		})
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "d", Spec: windlass.Spec{Type: "deaf"}}); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Second, "the deaf one runs", func() bool { return c.status("d") == windlass.StatusRunning })
		start = time.Now()
		err := deaf.leave()
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("closing took %v; the grace is 3s", took)
		}
		if !errors.Is(err, windlass.ErrAbandoned) || !strings.Contains(fmt.Sprint(err), `"d"`) {
			t.Errorf("closing ended with %v", err)
		}
		if s := c.status("d"); s != windlass.StatusRunning {
			t.Errorf("the claim of a handler that still runs was given up: %s", s)
		}
		close(release)
		c.sleep(20 * time.Second) // the abandoned session expires
	})
}
