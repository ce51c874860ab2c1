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

func TestSubmit_M20_AnIDThatIsLiveOrHasEndedIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers["ends"] = windlass.HandlerFunc(func(_ context.Context, claim *windlass.Claim) error {
				defer c.began(claim)()
				return nil
			})
		})
		submit := func(s windlass.Submission) error { return c.client.Submit(t.Context(), s) }
		task := windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "ends"}, Props: json.RawMessage(`{"x": 1}`)}
		if err := submit(task); err != nil {
			t.Fatal(err)
		}
		live := windlass.Submission{ID: "live"}
		if err := submit(live); err != nil {
			t.Fatal(err)
		}
		var exists *windlass.ExistsError
		if err := submit(live); !errors.As(err, &exists) || !exists.Same || !errors.Is(err, windlass.ErrExists) {
			t.Errorf("again while it is live: %v", err)
		}
		if err := submit(windlass.Submission{ID: "live", Spec: windlass.Spec{Priority: 5}}); !errors.As(err, &exists) || exists.Same {
			t.Errorf("another one while it is live: %v", err)
		}
		c.eventually(time.Second, "a is done", func() bool { return c.status("a") == windlass.StatusCompleted })
		task.Props = json.RawMessage(`{"x":1}`) // spacing makes no difference
		var finished *windlass.FinishedError
		err := submit(task)
		if !errors.As(err, &finished) || finished.State != "completed" || !finished.Same || !errors.Is(err, windlass.ErrFinished) ||
			!strings.Contains(err.Error(), "completed") || !windlass.AlreadySubmitted(err) {
			t.Errorf("again after it is done: %v", err)
		}
		task.Rerun = true
		if err := submit(task); err != nil {
			t.Errorf("run afresh: %v", err)
		}
		c.eventually(time.Second, "it ran again", func() bool { return c.startsOf("a") == 2 })
		c.eventually(time.Second, "a is done again", func() bool { return c.status("a") == windlass.StatusCompleted })
		n.leave()
	})
}

func TestSubmit_AFileOfTasksTwiceChangesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var all []windlass.Submission
		for i := range 700 {
			all = append(all, windlass.Submission{ID: fmt.Sprintf("t|%d", i), Props: json.RawMessage(fmt.Sprint(i))})
		}
		for _, err := range c.client.SubmitAll(t.Context(), all) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range c.client.SubmitAll(t.Context(), all) {
			if !windlass.AlreadySubmitted(err) {
				t.Fatal(err)
			}
		}
		if tasks, err := c.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 700 {
			t.Errorf("%d tasks, %v", len(tasks), err)
		}
	})
}

func TestSubmit_BadInputNamesTheFieldTheValueAndTheLimit(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		many := make([]string, windlass.NeedsMax+1)
		for i := range many {
			many[i] = fmt.Sprint("n", i)
		}
		for field, bad := range map[string][]windlass.Submission{
			"task ID":  {{ID: ""}, {ID: "a/b"}, {ID: "_x"}, {ID: ".."}, {ID: strings.Repeat("x", 513)}, {ID: "a\n"}},
			"priority": {{ID: "a", Spec: windlass.Spec{Priority: 1001}}, {ID: "a", Spec: windlass.Spec{Priority: -1001}}},
			"type":     {{ID: "a", Spec: windlass.Spec{Type: "*"}}, {ID: "a", Spec: windlass.Spec{Type: strings.Repeat("t", 129)}}},
			"props": {{ID: "a", Props: json.RawMessage("{")}, {ID: "a", Props: json.RawMessage(`"` + strings.Repeat("x", windlass.PropsBytesMax) + `"`)},
				{ID: "a", Props: json.RawMessage(strings.Repeat(`{"[\"[":[`, 501) + strings.Repeat(`]}`, 501))}},
			"needs": {{ID: "a", Spec: windlass.Spec{Needs: many}}, {ID: "a", Spec: windlass.Spec{Needs: []string{"a"}}},
				{ID: "a", Spec: windlass.Spec{Needs: []string{"b/c"}}}, {ID: "a", Spec: windlass.Spec{Needs: []string{"a|b"}}}},
		} {
			for _, s := range bad {
				if field == "needs" && len(s.Spec.Needs) == 1 && s.Spec.Needs[0] == "a|b" {
					// Only a cycle once the child exists: it waits for its parent.
					if err := c.client.Submit(t.Context(), windlass.Submission{ID: "a|b"}); err != nil {
						t.Fatal(err)
					}
				}
				var input *windlass.BadInputError
				if err := c.client.Submit(t.Context(), s); !errors.As(err, &input) || input.Field != field || input.Limit == "" {
					t.Errorf("%s: %v", field, err)
				}
			}
		}
		if tasks, err := c.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 1 {
			t.Errorf("something was submitted: %v, %v", tasks, err)
		}
	})
}

func TestSubmit_Z12_TasksThatWouldWaitForThemselvesAreRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		needs := func(id string, needs ...string) windlass.Submission {
			return windlass.Submission{ID: id, Spec: windlass.Spec{Needs: needs}}
		}
		for _, err := range c.client.SubmitAll(t.Context(), []windlass.Submission{needs("a", "b"), needs("b", "c"), needs("x", "y")}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		err := c.client.Submit(t.Context(), needs("c", "a"))
		if err == nil || !strings.Contains(err.Error(), "c → a → b → c") {
			t.Errorf("c needs a needs b needs c: %v", err)
		}
		errs := c.client.SubmitAll(t.Context(), []windlass.Submission{needs("p", "q"), needs("q", "p"), needs("r")})
		if errs[0] == nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("within one call: %v", errs)
		}
	})
}

func TestDelete_M21_RemovesTheTaskStopsItsHandlerAndLeavesItsStateAndItsSiblings(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Handlers["fails"] = windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return errors.New("no") })
		})
		for _, id := range []string{"a", "ab", "a|b", "a-1"} {
			if err := c.client.Submit(t.Context(), windlass.Submission{ID: id, Props: json.RawMessage("1")}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "failing", Spec: windlass.Spec{Type: "fails"}}); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Second, "they run", c.allRunning(3)) // a|b waits for a
		if err := c.client.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		c.eventually(time.Second, "the handler was told", func() bool { return len(c.causesOf("a")) == 1 })
		if cause := c.causesOf("a")[0]; !errors.Is(cause, windlass.ErrDeleted) {
			t.Errorf("cause %v", cause)
		}
		c.eventually(time.Second, "its child runs", c.allRunning(3))
		if c.startsOf("ab") != 1 || c.startsOf("a-1") != 1 {
			t.Error("a sibling was disturbed")
		}
		if err := c.client.Delete(t.Context(), "a"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
		c.eventually(time.Second, "it sleeps", func() bool { return c.status("failing") == windlass.StatusSleeping })
		if err := c.client.Delete(t.Context(), "failing"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.store.Get(t.Context(), "/test/state/failing"); err != nil {
			t.Errorf("its state: %v", err)
		}
		c.eventually(time.Second, "the node lets it go", func() bool { return len(n.Tasks()) == 3 })
		// What a deleted task left behind does not keep its ID from being used.
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "failing"}); err != nil {
			t.Errorf("the ID again: %v", err)
		}
		c.eventually(5*time.Second, "it runs afresh", c.allRunning(4))
		n.leave()
	})
}

func TestClient_M22_ListsCountsAndFilters(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		now := time.Now()
		for _, s := range []windlass.Submission{
			{ID: "b", Spec: windlass.Spec{Type: "x", Priority: 7}}, {ID: "a"}, {ID: "a|child"},
			{ID: "later", Spec: windlass.Spec{NotBefore: now.Add(time.Hour)}},
		} {
			if err := c.client.Submit(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		ids := func(f windlass.Filter) string {
			tasks, err := c.client.Tasks(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
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
		n := c.join("n", func(cfg *windlass.Config) {
			cfg.Zone, cfg.Labels, cfg.Capacity = "z1", map[string]string{"disk": "ssd"}, 50
		})
		c.eventually(time.Second, "two run", c.allRunning(2))
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
		c.sleep(time.Second) // when it was claimed is written down a moment later
		d, err := c.client.Task(t.Context(), "b")
		if err != nil || d.ClaimedAt == nil || d.SubmittedAt == nil || d.Priority != 7 || d.Spec.Type != "x" {
			t.Errorf("task %+v, %v", d, err)
		}
		if _, err := c.client.Task(t.Context(), "nobody"); !errors.Is(err, windlass.ErrNotFound) {
			t.Errorf("a task that is not there: %v", err)
		}
		n.leave()
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
		c.sleep(time.Second)
		n := c.join("n")
		c.eventually(time.Second, "it runs", c.allRunning(1))
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "task-000|child"}); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Second)
		if err := c.client.Delete(t.Context(), "task-000"); err != nil {
			t.Fatal(err)
		}
		c.sleep(time.Second)
		cancel()
		<-done
		c.settle()
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
		n.leave()
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
		c.sleep(time.Second) // a watch that is just beginning may show several changes as one
		n := c.join("n")
		c.eventually(time.Second, "it is there", func() bool { return len(c.nodes()) == 1 })
		c.sleep(time.Second)
		c.submit(1, windlass.Spec{})
		c.eventually(time.Second, "it runs", c.allRunning(1))
		c.sleep(time.Second)
		c.send("n", "freeze", "")
		c.sleep(time.Second)
		n.leave()
		c.sleep(time.Second)
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
		c.store.Close()
		err := c.client.Submit(t.Context(), windlass.Submission{ID: "a"})
		if !errors.Is(err, broker.ErrClosed) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("submit: %v", err)
		}
		if _, err := c.client.Tasks(t.Context(), windlass.Filter{}); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("list: %v", err)
		}
	})
}

func TestConfig_M01_BadOnesAreErrorsAndNeverPanics(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		good := windlass.Config{Broker: c.store, Name: "n", Handlers: map[string]windlass.NewHandler{"": windlass.HandlerFunc(c.untilStopped)}}
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
		} {
			bad := good
			spoil(&bad)
			var input *windlass.BadInputError
			if _, err := windlass.NewNode(bad); !errors.As(err, &input) || input.Field != field {
				t.Errorf("%s: %v", field, err)
			}
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
		c.eventually(time.Second, "it is there", func() bool { return len(c.nodes()) == 1 })
		if err := n.Run(t.Context()); !errors.Is(err, windlass.ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
		n.leave()
		if err := n.Run(t.Context()); !errors.Is(err, windlass.ErrRunning) {
			t.Errorf("Run after it ended: %v", err)
		}
	})
}
