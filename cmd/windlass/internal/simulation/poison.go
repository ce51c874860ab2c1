package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// poisoned is a fleet of nodes that a supervisor starts again when they have died. Each has a process
// of its own in which its tasks do their work. Some tasks
// kill the nodes that run them, or that process, and both die for reasons that no task has: somebody kills
// them, their machines fail, and they are replaced one after the other.
type poisoned struct {
	*windlasstest.Cluster
	t      *testing.T
	random *rand.Rand
	names  []string
	// fuses says how long tasks run before they kill their nodes. healthy are the others.
	fuses   map[string]fuse
	healthy []string
	// plan is what happens to the fleet, in the order of time.
	plan []incident

	// grouped is true if the healthy tasks are in groups.
	grouped bool

	mu    sync.Mutex
	nodes map[string]*windlasstest.Node
	// works is open while the process lives in which a node's tasks do their work.
	works    map[string]chan struct{}
	crashing sync.WaitGroup
	// back is when each dead node is started again.
	back map[string]time.Time
	// killed counts the nodes that each task has killed, died all deaths.
	killed map[string]int
	died   int
}

// fuse is how long a task runs before it kills its node, or the process that does its work, and how many it
// may kill until it is set aside, as decision 0056 has it, and one more for each death that has another
// reason.
type fuse struct {
	least, most time.Duration
	kills       int
	process     bool
}

// incident is something that happens to a fleet.
type incident struct {
	at time.Time
	do func(*poisoned)
}

// poisonedFor is how long things happen to a fleet; slow poison has as long again to be found.
const poisonedFor = 30 * time.Minute

// blame is who was set aside in a fleet.
type blame struct {
	// innocent has the tasks that do not run and should, or that have failed where nodes die to
	// the end; unfound those that kill nodes and were not set aside, late those that have killed
	// more than they may until they were.
	innocent, unfound, late []string
	// uneven says which groups are not spread once a node has joined at the end (O08).
	uneven []string
}

// runPoisoned runs one fleet.
func runPoisoned(t *testing.T, seed uint64) (b blame) {
	random := rand.New(rand.NewPCG(seed, 11))
	windlasstest.TestWith(t, windlasstest.Options{SessionTTL: pick(random, 5*time.Second, 15*time.Second)}, func(t *testing.T, c *windlasstest.Cluster) {
		p := &poisoned{
			Cluster: c, t: t, random: random, fuses: map[string]fuse{},
			nodes: map[string]*windlasstest.Node{}, back: map[string]time.Time{}, killed: map[string]int{},
			works: map[string]chan struct{}{}, grouped: random.IntN(2) == 0,
		}
		p.play()
		b = p.judge()
		p.crashing.Wait()
		if p.grouped && len(b.unfound) == 0 {
			b.uneven = p.uneven()
		}
	})
	return b
}

func (p *poisoned) play() {
	for i := range 3 + p.random.IntN(4) {
		name := fmt.Sprint("n", i)
		p.names, p.works[name] = append(p.names, name), make(chan struct{})
		p.nodes[name] = p.Start(name, p.config(name))
	}
	for i := range 2*len(p.names) + p.random.IntN(40) {
		id := fmt.Sprint("t", i)
		p.healthy = append(p.healthy, id)
		p.Submit(windlass.Submission{ID: id, Spec: windlass.Spec{Group: p.groupOf(id)}})
	}
	p.Advance(time.Minute)
	p.makePlan()
	for end := time.Now().Add(poisonedFor); time.Now().Before(end) || len(p.live()) > 0 && time.Now().Before(end.Add(poisonedFor)); {
		for len(p.plan) > 0 && !time.Now().Before(p.plan[0].at) {
			next := p.plan[0]
			p.plan = p.plan[1:]
			next.do(p)
		}
		p.restart()
		p.Advance(250 * time.Millisecond)
	}
	for range 8 {
		p.restart()
		p.Advance(30 * time.Second)
	}
}

func (p *poisoned) makePlan() {
	upTo := func(n int) int { return p.random.IntN(n + 1) }
	at := func(do func(*poisoned)) {
		p.plan = append(p.plan, incident{time.Now().Add(time.Duration(p.random.Int64N(int64(poisonedFor * 2 / 3)))), do})
	}
	for range upTo(4) {
		at(func(p *poisoned) { p.kill(p.someNode()) })
	}
	for range upTo(1) { // two machines at once
		at(func(p *poisoned) { p.kill(p.someNode()); p.kill(p.someNode()) })
	}
	for range upTo(1) { // all in turn, by somebody who does not wait for them to stop
		at(func(p *poisoned) { p.inTurn(p.kill) })
	}
	for range upTo(1) {
		at(func(p *poisoned) { p.inTurn(p.replace) })
	}
	for range upTo(2) {
		at(func(p *poisoned) { p.crash(p.someNode()) })
	}
	for i := range upTo(2) {
		id := fmt.Sprint("poison", i)
		f := pick(p.random,
			fuse{most: 100 * time.Millisecond, kills: 4}, fuse{least: time.Second, most: 8 * time.Second, kills: 7},
			fuse{least: 12 * time.Second, most: 25 * time.Second, kills: 24})
		f.process = p.random.IntN(2) == 0
		p.fuses[id] = f
		at(func(p *poisoned) { p.Submit(windlass.Submission{ID: id}) })
	}
	slices.SortStableFunc(p.plan, func(a, b incident) int { return a.at.Compare(b.at) })
}

func (p *poisoned) config(name string) windlass.Config {
	return windlass.Config{Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(p.handler(name))}}
}

func (p *poisoned) handler(node string) func(context.Context, *windlass.Claim) error {
	return func(ctx context.Context, claim *windlass.Claim) error {
		p.mu.Lock()
		works, f, kill := p.works[node], p.fuses[claim.ID()], p.kill
		after := f.least + upTo(p.random, max(1, f.most-f.least))
		p.mu.Unlock()
		if f.process {
			kill = p.crash
		}
		if f.most > 0 {
			select {
			case <-time.After(after):
				p.mu.Lock()
				p.killed[claim.ID()]++
				p.mu.Unlock()
				kill(node)
			case <-works:
			case <-ctx.Done():
			}
		}
		select {
		case <-works:
			return windlass.ErrRelease
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// crash kills the process in which the tasks of a node do their work, and starts it again.
func (p *poisoned) crash(name string) {
	p.mu.Lock()
	node, works := p.nodes[name], p.works[name]
	var tasks []string
	for _, t := range node.Tasks() {
		if !t.Parked {
			tasks = append(tasks, t.ID)
		}
	}
	p.works[name] = make(chan struct{})
	p.died++
	p.mu.Unlock()
	p.crashing.Go(func() {
		defer close(works)
		_ = node.RecordDeath(p.t.Context(), "worker", tasks) // or it dies meanwhile
	})
}

// groupOf returns the group of a healthy task, empty for none.
func (p *poisoned) groupOf(id string) string {
	if !p.grouped {
		return ""
	}
	return fmt.Sprint("g", hash("group of "+id)%groups)
}

// uneven lets a node join, and returns the groups that are not spread then, if there are any.
func (p *poisoned) uneven() (wrong []string) {
	p.Start("joins", p.config("joins"))
	for began := time.Now(); time.Since(began) < 2*spreadWithin; {
		p.Advance(10 * time.Second)
		nodes, err := p.Client().Nodes(p.t.Context())
		tasks, err2 := p.Client().Tasks(p.t.Context(), windlass.Filter{})
		if err = errors.Join(err, err2); err != nil {
			return []string{err.Error()}
		}
		uneven := unevenGroup(nodes, tasks, func(t windlass.TaskInfo) string { return p.groupOf(t.ID) })
		if uneven == "" {
			return nil
		}
		wrong = []string{uneven}
	}
	return wrong
}

func (p *poisoned) someNode() string { return p.names[p.random.IntN(len(p.names))] }

// kill kills a node, unless it is dead.
func (p *poisoned) kill(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, dead := p.back[name]; !dead {
		p.died++
		p.back[name] = time.Now().Add(time.Second + upTo(p.random, 2*time.Second))
		p.nodes[name].Kill()
	}
}

// replace stops a node in good order and starts it again.
func (p *poisoned) replace(name string) {
	p.mu.Lock()
	_, dead := p.back[name]
	node := p.nodes[name]
	p.mu.Unlock()
	if dead {
		return
	}
	_ = node.Stop() // a task may kill it meanwhile
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, dead := p.back[name]; !dead {
		p.back[name] = time.Now()
	}
}

// inTurn does something to all nodes, one after the other.
func (p *poisoned) inTurn(do func(string)) {
	every := pick(p.random, 3*time.Second, 10*time.Second, 40*time.Second)
	for _, name := range p.names {
		do(name)
		for end := time.Now().Add(every); time.Now().Before(end); p.Advance(250 * time.Millisecond) {
			p.restart()
		}
	}
}

// restart starts the nodes again whose time has come.
func (p *poisoned) restart() {
	for _, name := range p.names {
		p.mu.Lock()
		if at, dead := p.back[name]; dead && !time.Now().Before(at) {
			delete(p.back, name)
			p.nodes[name] = p.nodes[name].Restart()
		}
		p.mu.Unlock()
	}
}

// live returns the tasks that kill nodes and still may, or will be submitted.
func (p *poisoned) live() (ids []string) {
	for id := range p.fuses {
		if d, err := p.Client().Task(p.t.Context(), id); err != nil || d.Status != windlass.StatusFailed {
			ids = append(ids, id)
		}
	}
	return ids
}

// judge says who is set aside at the end (O02).
func (p *poisoned) judge() (b blame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, f := range p.fuses {
		d, err := p.Client().Task(p.t.Context(), id)
		most := f.kills + p.died - p.killed[id]
		kills := fmt.Sprintf("%s has killed %d nodes (or %t: their processes), each after %v to %v", id, p.killed[id], f.process, f.least, f.most)
		if err != nil || d.Status != windlass.StatusFailed || !strings.HasPrefix(d.LastError(), setAside) {
			b.unfound = append(b.unfound, fmt.Sprintf("%s, and is %s (%v)", kills, d.Status, err))
		} else if p.killed[id] > most {
			b.late = append(b.late, fmt.Sprintf("%s, more than %d", kills, most))
		}
	}
	for _, id := range p.healthy {
		d, err := p.Client().Task(p.t.Context(), id)
		if err != nil || d.Status == windlass.StatusFailed || d.Status != windlass.StatusRunning && len(b.unfound) == 0 {
			b.innocent = append(b.innocent, fmt.Sprintf("%s is %s: %s (%v)", id, d.Status, d.LastError(), err))
		}
	}
	return b
}
