package integration_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

// works are the processes in which the tasks of nodes do their work, one for each node. The task
// "poison" kills that of its node.
type works struct {
	*cluster
	mu    sync.Mutex
	nodes map[string]*windlasstest.Node
	lives map[string]chan struct{}
	died  int
}

func startWorks(c *cluster, names ...string) *works {
	w := &works{cluster: c, nodes: map[string]*windlasstest.Node{}, lives: map[string]chan struct{}{}}
	for _, name := range names {
		w.lives[name] = make(chan struct{})
		w.nodes[name] = c.Start(name, windlass.Config{Handlers: map[string]windlass.NewHandler{windlass.AnyType: w.handler(name)}})
	}
	return w
}

func (w *works) handler(name string) windlass.NewHandler {
	return windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
		w.mu.Lock()
		lives := w.lives[name]
		w.mu.Unlock()
		if claim.ID() == "poison" {
			go func() { _ = w.kill(name) }()
		}
		select {
		case <-lives:
			return windlass.ErrRelease
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// kill kills the process that works for a node, and starts it again.
func (w *works) kill(name string) error {
	w.mu.Lock()
	var tasks []string
	for _, t := range w.nodes[name].Tasks() {
		tasks = append(tasks, t.ID)
	}
	lives := w.lives[name]
	w.lives[name] = make(chan struct{})
	w.died++
	w.mu.Unlock()
	defer close(lives)
	return w.nodes[name].RecordDeath(context.Background(), "worker", tasks)
}

// What kills the process that does the work of all tasks of a node is found as what kills the node.
func TestPoison_O02_TheTaskThatKillsTheProcessOfItsNodesTasksIsFound(t *testing.T) {
	for _, names := range [][]string{{"a", "b", "c"}, {"a", "b"}, {"a"}} {
		t.Run(strings.Join(names, ""), func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				w := startWorks(c, names...)
				healthy := c.submit(30, windlass.Spec{})
				c.Advance(time.Minute)
				c.Submit(windlass.Submission{ID: "poison"})
				c.WaitFor(3*time.Minute, "poison", windlass.StatusFailed)
				c.WaitUntil(time.Minute, "the others run", c.allRunning(30))
				c.Advance(10 * time.Second) // histories are written last
				if text := c.task("poison").LastError(); !strings.HasPrefix(text, "set aside: the process that ran it died 3 times") {
					t.Errorf("it failed with %q", text)
				}
				if died := c.deaths(); len(died) != 3 || w.died != 3 {
					t.Errorf("%d processes died, and %d deaths are recorded", w.died, len(died))
				}
				for _, d := range c.deaths() {
					if d.Process != "worker" || !d.Restarted || d.Late {
						t.Errorf("a death is recorded as %+v", d)
					}
				}
				for _, id := range append(healthy, "poison") {
					most := 3
					if id != "poison" && len(names) > 1 {
						most = 2
					}
					text, h := c.historyOf(id)
					lost := strings.Count(text, "lost")
					if lost > most || id == "poison" && h.Interruptions != 3 || strings.Count(inDetail(h), "the worker that ran it died") != lost {
						t.Errorf("%s was lost %d times, and interrupted %d: %s", id, lost, h.Interruptions, inDetail(h))
					}
				}
			})
		})
	}
}

// A process dies while its node is cut off. Whoever records that does not keep the handlers longer than the
// session lasts.
func TestPoison_O02_AProcessOfTheNodeDiesWhileTheBrokerIsAway(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		w := startWorks(c, "a", "b")
		c.submit(10, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(10))
		w.nodes["a"].Faults().Freeze()
		began := time.Now()
		if err := w.kill("a"); err == nil {
			t.Error("the death is recorded without a broker")
		}
		if took := time.Since(began); took > session.Derive(15*time.Second).Stop {
			t.Errorf("the handlers were kept for %v, longer than the session", took)
		}
		w.nodes["a"].Faults().Thaw()
		c.WaitUntil(time.Minute, "all run", c.allRunning(10))
	})
}

// A death that could not be recorded at once is recorded later, if the node keeps its session.
func TestPoison_O02_TheDeathOfAProcessIsRecordedOnceTheBrokerIsBack(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		w := startWorks(c, "a", "b")
		c.submit(10, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(10))
		w.nodes["a"].Partition()
		if err := w.kill("a"); !broker.Temporary(err) {
			t.Errorf("recording a death without a broker: %v", err)
		}
		c.Advance(2 * time.Second)
		w.nodes["a"].Heal()
		c.WaitUntil(time.Minute, "the death is recorded", func() bool { return len(c.deaths()) == 1 })
		if d := c.deaths()[0]; d.Process != "worker" || d.Claims != 5 {
			t.Errorf("recorded is %+v", d)
		}
		c.WaitUntil(time.Minute, "all run", c.allRunning(10))
	})
}

func TestPoison_O02_OnlyWhatRunsHereDiesWithAProcess(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		w := startWorks(c, "a")
		var bad *windlass.BadInputError
		for _, process := range []string{"", "a/b", strings.Repeat("x", 129)} {
			if err := w.nodes["a"].RecordDeath(t.Context(), process, nil); !errors.As(err, &bad) || bad.Field != "process" {
				t.Errorf("the process %q: %v", process, err)
			}
		}
		c.must(w.nodes["a"].RecordDeath(t.Context(), "worker", []string{"nowhere"}))
		c.must(w.nodes["a"].RecordDeath(t.Context(), "worker", nil))
		if died := c.deaths(); len(died) != 0 {
			t.Errorf("recorded are %+v", died)
		}
	})
}
