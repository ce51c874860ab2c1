package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/lease"
)

// Regression: a task whose deleted predecessor still runs was shown as running.
func TestClient_M22_ATaskThatWaitsForAnOlderRunOfItsIDIsPending(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.joinFaulty("n", "", w.slowToStop(3*time.Second))
		ids := w.submit(1, windlass.Spec{})
		w.WaitUntil(time.Minute, "it runs", w.allRunning(1))
		w.replace(ids[0])
		w.wantStatus(ids[0], windlass.StatusPending)
		w.WaitUntil(time.Minute, "it runs anew", func() bool {
			return w.startsOf(ids[0]) == 2 && w.status(ids[0]) == windlass.StatusRunning
		})
	})
}

func TestClient_M22_ListsCountsAndFilters(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		now := time.Now()
		for _, s := range []windlass.Submission{
			{ID: "b", Spec: windlass.Spec{Type: "x", Priority: 7}}, {ID: "a"}, {ID: "a|child"},
			{ID: "later", Spec: windlass.Spec{NotBefore: now.Add(time.Hour)}},
		} {
			c.Submit(s)
		}
		ids := func(f windlass.Filter) string {
			tasks, err := c.client.Tasks(t.Context(), f)
			c.must(err)
			var ids []string
			for _, task := range tasks {
				ids = append(ids, task.ID+":"+string(task.Status))
			}
			return strings.Join(ids, " ")
		}
		for want, f := range map[string]windlass.Filter{
			"a:pending a|child:blocked b:pending later:pending": {},
			"b:pending":                  {Types: []string{"x"}},
			"a|child:blocked":            {Statuses: []windlass.Status{windlass.StatusBlocked}},
			"a:pending a|child:blocked ": {IDPrefix: "a"},
			"":                           {Nodes: []string{"n"}},
		} {
			if got := ids(f); got != strings.TrimSpace(want) {
				t.Errorf("%+v: %q, want %q", f, got, want)
			}
		}
		c.join("n", func(cfg *windlass.Config) {
			cfg.Zone, cfg.Labels, cfg.Capacity = "z1", map[string]string{"disk": "ssd"}, 50
		})
		c.WaitUntil(time.Second, "two run", c.allRunning(2))
		if got := ids(windlass.Filter{Nodes: []string{"n"}}); got != "a:running b:running" {
			t.Errorf("on n: %q", got)
		}
		counts, err := c.client.Count(t.Context(), windlass.Filter{})
		if err != nil || counts[windlass.StatusRunning] != 2 || counts[windlass.StatusPending] != 1 || counts[windlass.StatusBlocked] != 1 {
			t.Errorf("counts %v, %v", counts, err)
		}
		node := c.nodes()[0]
		if node.Name != "n" || node.Tasks != 2 || node.Zone != "z1" || node.Labels["disk"] != "ssd" || node.Capacity != 50 || node.SessionTTL != "15s" {
			t.Errorf("node %+v", node)
		}
		c.Advance(time.Second) // when it was claimed is written down a moment later
		if d := c.task("b"); d.ClaimedAt == nil || d.SubmittedAt == nil || d.Priority != 7 || d.Spec.Type != "x" {
			t.Errorf("task %+v, %v", d, err)
		}
		if _, err := c.client.Task(t.Context(), "nobody"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("a task that is not there: %v", err)
		}
	})
}

func TestClient_M22_WatchesTasksAsTheyChange(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.submit(1, windlass.Spec{})
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		last := map[string]string{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for change, err := range c.client.WatchTasks(ctx, windlass.Filter{}) {
				if err != nil {
					t.Error(err)
				}
				if err == nil && change.Revision < 1 {
					t.Errorf("%+v has no revision", change)
				}
				entry := change.Task.ID + ":" + string(change.Task.Status)
				if change.Gone {
					entry = change.Task.ID + ":gone"
				}
				c.mu.Lock()
				if last[change.Task.ID] != entry { // its time of claim may come after its owner
					last[change.Task.ID] = entry
					seen = append(seen, entry)
				}
				c.mu.Unlock()
			}
		}()
		c.Advance(time.Second)
		c.join("n")
		c.WaitUntil(time.Second, "it runs", c.allRunning(1))
		c.Submit(windlass.Submission{ID: "task-000|child"})
		c.Advance(time.Second)
		c.remove("task-000")
		c.Advance(time.Second)
		cancel()
		<-done
		c.Advance(0)
		want := []string{"task-000:pending", "task-000:running", "task-000|child:blocked", "task-000:gone", "task-000|child:running"}
		var got []string
		for _, entry := range seen { // the child may be seen unblocked before it is claimed
			if entry != "task-000|child:pending" {
				got = append(got, entry)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("seen %q, want %q", seen, want)
		}
	})
}

func TestClient_M22_WatchesNodesAsTheyChange(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		var seen []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			for change, err := range c.client.WatchNodes(ctx) {
				if err != nil {
					t.Error(err)
				}
				c.mu.Lock()
				if err == nil && change.Revision < 1 {
					t.Errorf("%+v has no revision", change)
				}
				seen = append(seen, fmt.Sprint(change.Node.Name, " ", change.Node.Tasks, " ", change.Node.Frozen, " ", change.Gone))
				c.mu.Unlock()
			}
		}()
		c.Advance(time.Second) // a watch that is just beginning may show several changes as one
		n := c.join("n")
		c.awaitNodes(1)
		c.Advance(time.Second)
		c.submit(1, windlass.Spec{})
		c.WaitUntil(time.Second, "it runs", c.allRunning(1))
		c.Advance(time.Second)
		c.send("n", "freeze", "")
		c.Advance(time.Second)
		n.Stop()
		c.Advance(time.Second)
		cancel()
		<-done
		joined, frozen := slices.Index(seen, "n 0 false false"), slices.Index(seen, "n 1 true false")
		if joined != 0 || !slices.Contains(seen, "n 1 false false") || frozen < 0 || seen[len(seen)-1] != "n 0 false true" {
			t.Errorf("seen %q", seen)
		}
	})
}

func TestClient_ABrokerThatIsClosedIsReported(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		store := c.open()
		client := c.clientOn(store)
		closed(t, store)
		err := client.Submit(t.Context(), windlass.Submission{ID: "a"})
		if !errors.Is(err, broker.ErrClosed) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("submit: %v", err)
		}
		if _, err := client.Tasks(t.Context(), windlass.Filter{}); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("list: %v", err)
		}
	})
}

func TestConfig_M01_BadOnesAreErrorsAndNeverPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		good := windlass.Config{Broker: c.store, Name: "n", Handlers: map[string]windlass.NewHandler{"": windlass.HandlerFunc(untilStopped)}}
		if _, err := windlass.NewNode(good); err != nil {
			t.Fatal(err)
		}
		for field, spoil := range map[string]func(*windlass.Config){
			"broker":         func(c *windlass.Config) { c.Broker = nil },
			"namespace":      func(c *windlass.Config) { c.Namespace = "/" },
			"node name":      func(c *windlass.Config) { c.Name = "a/b" },
			"handlers":       func(c *windlass.Config) { c.Handlers = nil },
			"type":           func(c *windlass.Config) { c.Handlers = map[string]windlass.NewHandler{"a/b": c.Handlers[""]} },
			"session TTL":    func(c *windlass.Config) { c.SessionTTL = time.Second },
			"shutdown grace": func(c *windlass.Config) { c.ShutdownGrace = -1 },
			"capacity":       func(c *windlass.Config) { c.Capacity = -1 },
			"retention age":  func(c *windlass.Config) { c.Retention.Age = -1 },
		} {
			bad := good
			spoil(&bad)
			var input *windlass.BadInputError
			if _, err := windlass.NewNode(bad); !errors.As(err, &input) || input.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		bad := windlass.Config{Capacity: -1, MovesMax: -1, Handlers: map[string]windlass.NewHandler{
			"a": windlass.HandlerFunc(nil), "b": windlass.Stateful(nil), "c": windlass.HandlerFunc(untilStopped),
		}, Concurrency: map[string]int{"d": 1}}
		_, err := windlass.NewNode(bad)
		for _, word := range []string{"broker", "capacity", "moves", `handlers "a"`, `handlers "b"`, `concurrency "d"`} {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s is not in %v", word, err)
			}
		}
		if strings.Contains(fmt.Sprint(err), `"c"`) {
			t.Errorf("what is right is in %v", err)
		}
		if _, err := windlass.NewClient(c.store, " / "); err == nil {
			t.Error("a client for no namespace")
		}
		if _, err := windlass.NewClient(nil, ""); err == nil {
			t.Error("a client without a broker")
		}
	})
}

func TestNode_RunsOnlyOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n")
		c.awaitNodes(1)
		if err := n.Run(t.Context()); !errors.Is(err, windlass.ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
		n.Stop()
		if err := n.Run(t.Context()); !errors.Is(err, windlass.ErrRunning) {
			t.Errorf("Run after it ended: %v", err)
		}
	})
}

func TestClient_Z09_AJobThatSleepsAndThatNobodyHoldsIsPending(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		c.job("a_t")
		d := c.detach("t", "a_t")
		c.must(lease.New(c.client, nil).Fail(ctx, "a_t", d.Token, errors.New("first")))
		jobs := c.jobs(c.store)
		pending, err := jobs.Pending(ctx)
		if err != nil || len(pending) != 1 {
			t.Errorf("pending: %v, %v", pending, err)
		}
		working, err := jobs.Working(ctx)
		if err != nil || len(working) != 0 {
			t.Errorf("working: %d of them, held by node %q, %v", len(working), working[0].Node, err)
		}
	})
}
