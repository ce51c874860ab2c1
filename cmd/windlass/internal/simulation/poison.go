package simulation

import (
	"context"
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

// poisoned is a fleet of nodes that a supervisor starts again when they have died. Some tasks
// kill the nodes that run them, and nodes die for reasons that no task has: somebody kills
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

	mu    sync.Mutex
	nodes map[string]*windlasstest.Node
	// back is when each dead node is started again.
	back map[string]time.Time
	// killed counts the nodes that each task has killed.
	killed map[string]int
}

// fuse is how long a task runs before it kills its node, and how many it may kill until it is
// set aside, as decision 0056 has it, and one more for each time that the fleet is disturbed.
type fuse struct {
	least, most time.Duration
	kills       int
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
}

// runPoisoned runs one fleet.
func runPoisoned(t *testing.T, seed uint64) (b blame) {
	random := rand.New(rand.NewPCG(seed, 11))
	windlasstest.TestWith(t, windlasstest.Options{SessionTTL: pick(random, 5*time.Second, 15*time.Second)}, func(t *testing.T, c *windlasstest.Cluster) {
		p := &poisoned{
			Cluster: c, t: t, random: random, fuses: map[string]fuse{},
			nodes: map[string]*windlasstest.Node{}, back: map[string]time.Time{}, killed: map[string]int{},
		}
		p.play()
		b = p.judge()
	})
	return b
}

func (p *poisoned) play() {
	for i := range 3 + p.random.IntN(4) {
		name := fmt.Sprint("n", i)
		p.names = append(p.names, name)
		p.nodes[name] = p.Start(name, windlass.Config{Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(p.handler(name))}})
	}
	for i := range 2*len(p.names) + p.random.IntN(40) {
		id := fmt.Sprint("t", i)
		p.healthy = append(p.healthy, id)
		p.Submit(windlass.Submission{ID: id})
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
	disturbed := len(p.plan)
	for i := range upTo(2) {
		id := fmt.Sprint("poison", i)
		f := pick(p.random, fuse{0, 100 * time.Millisecond, 4}, fuse{time.Second, 8 * time.Second, 7}, fuse{12 * time.Second, 25 * time.Second, 20})
		f.kills += disturbed
		p.fuses[id] = f
		at(func(p *poisoned) { p.Submit(windlass.Submission{ID: id}) })
	}
	slices.SortStableFunc(p.plan, func(a, b incident) int { return a.at.Compare(b.at) })
}

func (p *poisoned) handler(node string) func(context.Context, *windlass.Claim) error {
	return func(ctx context.Context, claim *windlass.Claim) error {
		if f, poison := p.fuses[claim.ID()]; poison {
			p.mu.Lock()
			after := f.least + upTo(p.random, f.most-f.least)
			p.mu.Unlock()
			select {
			case <-time.After(after):
				p.mu.Lock()
				p.killed[claim.ID()]++
				p.mu.Unlock()
				p.kill(node)
			case <-ctx.Done():
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func (p *poisoned) someNode() string { return p.names[p.random.IntN(len(p.names))] }

// kill kills a node, unless it is dead.
func (p *poisoned) kill(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, dead := p.back[name]; !dead {
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
		kills := fmt.Sprintf("%s has killed %d nodes, each after %v to %v", id, p.killed[id], f.least, f.most)
		if err != nil || d.Status != windlass.StatusFailed || !strings.HasPrefix(d.LastError(), setAside) {
			b.unfound = append(b.unfound, fmt.Sprintf("%s, and is %s (%v)", kills, d.Status, err))
		} else if p.killed[id] > f.kills {
			b.late = append(b.late, fmt.Sprintf("%s, more than %d", kills, f.kills))
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
