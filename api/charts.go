package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// The fine chart has an hour of samples every ten seconds, the coarse one a day of
	// samples every five minutes.
	sampleEvery    = 10 * time.Second
	fineSamples    = 360
	coarseEvery    = 30 // samples of the fine chart
	coarseSamples  = 288
	chartsDescribe = "Series for charts, the last hour in steps of ten seconds and then the last day in steps of five minutes, as far as this server " +
		"has run. While it cannot follow the broker there are no samples. Claims and moves count from its start."
)

// chart has samples at regular times, the oldest first. Its JSON is stable.
type chart struct {
	StepSeconds int                       `json:"step_seconds" doc:"between two samples, if none is missing"`
	At          []int64                   `json:"at" doc:"when each sample was taken, in seconds since 1970"`
	Tasks       map[windlass.Status][]int `json:"tasks" doc:"how many tasks there were, by status"`
	Nodes       []int                     `json:"nodes" doc:"how many nodes there were"`
	Claims      []int64                   `json:"claims" doc:"how many claims had been granted"`
	Moves       []int64                   `json:"moves" doc:"how many of them on another node than the one before"`
}

// sample is one moment of a chart.
type sample struct {
	at            time.Time
	tasks         map[windlass.Status]int
	nodes         int
	claims, moves int64
}

// charts samples the namespace for viewers that come later.
type charts struct {
	mu           sync.Mutex
	fine, coarse []sample
	// taken counts the samples.
	taken int
	// nodes has the names of the nodes.
	nodes map[string]bool
	// held has the last claims of the live tasks.
	held map[string]lastClaim
	// before is the revision of the first change, which the listing yields: claims up to it
	// were granted before. In an empty namespace it is the first submission.
	before        int64
	claims, moves int64
}

// lastClaim is the last known claim of a task.
type lastClaim struct {
	token int64
	node  string
}

func newCharts() *charts {
	return &charts{nodes: map[string]bool{}, held: map[string]lastClaim{}}
}

// task counts the claim that a change shows, if it is a new one.
func (c *charts) task(change windlass.TaskChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.before == 0 {
		c.before = change.Revision
	}
	t := change.Task
	was := c.held[t.ID]
	if t.Token > max(was.token, c.before) {
		c.claims++
		if was.node != "" && was.node != t.Node {
			c.moves++
		}
	}
	switch {
	case change.Gone || statemachine.State(t.Status).Terminal():
		delete(c.held, t.ID)
	case t.Token > was.token:
		c.held[t.ID] = lastClaim{t.Token, t.Node}
	}
}

// node counts the nodes.
func (c *charts) node(change windlass.NodeChange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change.Gone {
		delete(c.nodes, change.Node.Name)
	} else {
		c.nodes[change.Node.Name] = true
	}
}

// run takes samples until ctx is done. counts returns the tasks by status, nil while they
// are not known.
func (c *charts) run(ctx context.Context, counts func() map[windlass.Status]int) {
	every := time.NewTicker(sampleEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			if tasks := counts(); tasks != nil {
				c.take(tasks, now)
			}
		}
	}
}

// take adds a sample.
func (c *charts) take(tasks map[windlass.Status]int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := sample{at: now, tasks: tasks, nodes: len(c.nodes), claims: c.claims, moves: c.moves}
	c.fine = appendSample(c.fine, s, fineSamples)
	if c.taken%coarseEvery == 0 {
		c.coarse = appendSample(c.coarse, s, coarseSamples)
	}
	c.taken++
}

// appendSample appends a sample, and drops the oldest of more than most.
func appendSample(list []sample, s sample, most int) []sample {
	if len(list) >= most {
		list = append(list[:0], list[len(list)-most+1:]...)
	}
	return append(list, s)
}

// all returns the fine and the coarse chart.
func (c *charts) all() []chart {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []chart{chartOf(c.fine, sampleEvery), chartOf(c.coarse, coarseEvery*sampleEvery)}
}

func chartOf(samples []sample, step time.Duration) chart {
	n := len(samples)
	c := chart{
		StepSeconds: int(step / time.Second), At: make([]int64, n), Tasks: map[windlass.Status][]int{},
		Nodes: make([]int, n), Claims: make([]int64, n), Moves: make([]int64, n),
	}
	for _, status := range windlass.Statuses {
		c.Tasks[status] = make([]int, n)
	}
	for i, s := range samples {
		c.At[i], c.Nodes[i], c.Claims[i], c.Moves[i] = s.at.Unix(), s.nodes, s.claims, s.moves
		for status, list := range c.Tasks {
			list[i] = s.tasks[status]
		}
	}
	return c
}

func (s *Server) registerCharts() {
	add(s, endpoint{ID: "charts", Method: http.MethodGet, Path: "/v1/charts", Tag: "system", Offline: true,
		Summary: "How many tasks, nodes and claims there were", Description: chartsDescribe,
	}, func(context.Context, *noBody) (*ok[[]chart], error) { return &ok[[]chart]{s.charts.all()}, nil })
}
