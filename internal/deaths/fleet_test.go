package deaths

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// fleet is a model of nodes that die: by tasks that kill them, and for reasons that no task
// has. It claims as nodes do, at the times that its book says, and knows nothing of brokers.
type fleet struct {
	random *rand.Rand
	now    time.Time
	book   Book
	deaths []Death
	died   int // how many there were
	nodes  []*modelNode
	tasks  []*modelTask
	token  broker.Revision
	// ttl is how long a death is noticed after it happened, and restart how much later the
	// node is back.
	ttl, restart time.Duration
	// kills are the times at which a node dies for another reason, the next first.
	kills []time.Time
	// rolling is true if they go round.
	rolling bool
}

type modelNode struct {
	number int
	// diedAt and backAt are zero for a node that is up. seen is true once its death is recorded.
	diedAt, backAt time.Time
	seen           bool
	record         string
}

func (n *modelNode) up() bool { return n.diedAt.IsZero() }

type modelTask struct {
	id string
	// kills says how long after its claim it kills its node; zero for a task that is innocent.
	kills   func() time.Duration
	on      *modelNode
	claimed time.Time
	fires   time.Time
	token   broker.Revision
	// aside is true once it was set aside.
	aside bool
	// free is when the claim ended.
	free time.Time
	// killed is how many nodes it has killed.
	killed int
	// lost is how often it was lost with its node; scatter is which nodes may take it at first.
	lost, scatter int
}

func newFleet(random *rand.Rand, nodes, tasks int) *fleet {
	f := &fleet{random: random, now: start}
	for i := range nodes {
		f.nodes = append(f.nodes, &modelNode{number: i})
	}
	for i := range tasks {
		f.tasks = append(f.tasks, &modelTask{id: fmt.Sprintf("t%03d", i)})
	}
	return f
}

func (f *fleet) created(string) broker.Revision { return 0 }

func (f *fleet) limits(id string) (Limits, bool) {
	return Limits{Deaths: CountDefault}, !slices.ContainsFunc(f.tasks, func(t *modelTask) bool { return t.id == id && t.aside })
}

// run advances the fleet in small steps.
func (f *fleet) run(until time.Time) {
	for ; f.now.Before(until); f.now = f.next(until) {
		for _, t := range f.tasks {
			if t.on != nil && t.on.up() && !t.fires.IsZero() && !f.now.Before(t.fires) {
				t.killed++
				f.die(t.on)
			}
		}
		if len(f.kills) > 0 && !f.now.Before(f.kills[0]) {
			f.kills = f.kills[1:]
			n := f.nodes[f.random.IntN(len(f.nodes))]
			if f.rolling {
				n = f.nodes[len(f.kills)%len(f.nodes)]
			}
			if n.up() {
				f.die(n)
			}
		}
		for _, n := range f.nodes {
			f.notice(n)
		}
		f.refute()
		f.claim()
		f.balance()
	}
}

// balance moves tasks to nodes that have less, a minute after the last death.
func (f *fleet) balance() {
	if n := len(f.deaths); n == 0 || f.now.Before(f.deaths[n-1].At.Add(time.Minute)) || slices.ContainsFunc(f.nodes, func(n *modelNode) bool { return !n.up() }) {
		return
	}
	holds := map[*modelNode][]*modelTask{}
	for _, t := range f.tasks {
		if t.on != nil {
			holds[t.on] = append(holds[t.on], t)
		}
	}
	for {
		by := func(a, b *modelNode) int { return len(holds[a]) - len(holds[b]) }
		least, most := slices.MinFunc(f.nodes, by), slices.MaxFunc(f.nodes, by)
		if len(holds[most]) <= len(holds[least])+1 {
			return
		}
		i := f.random.IntN(len(holds[most]))
		t := holds[most][i]
		holds[most] = slices.Delete(holds[most], i, i+1)
		holds[least] = append(holds[least], t)
		f.give(t, least)
	}
}

// next returns when something happens next.
func (f *fleet) next(until time.Time) time.Time {
	step := f.now.Add(100 * time.Millisecond)
	if slices.ContainsFunc(f.nodes, func(n *modelNode) bool { return !n.up() }) {
		return step
	}
	if len(f.kills) > 0 {
		until = f.kills[0]
	}
	if n := len(f.deaths); n > 0 {
		if at := f.deaths[n-1].At.Add(time.Minute); f.now.Before(at) && at.Before(until) {
			until = at
		}
	}
	for _, t := range f.tasks {
		if t.on == nil && !t.aside {
			return step
		}
		if !t.fires.IsZero() && t.fires.Before(until) && t.on != nil {
			until = t.fires
		}
	}
	if until.Before(step) {
		return step
	}
	return until
}

func (f *fleet) die(n *modelNode) {
	n.diedAt, n.seen = f.now, false
	n.backAt = f.now.Add(f.ttl + f.restart)
}

// notice records the death of a node, and later that it is back.
func (f *fleet) notice(n *modelNode) {
	if n.up() {
		return
	}
	if !n.seen && !f.now.Before(n.diedAt.Add(f.ttl)) {
		n.seen = true
		f.died++
		d := Death{Node: fmt.Sprint("n", n.number), Incarnation: fmt.Sprint(f.died), At: f.now}
		var lost []Lost
		since := map[broker.Revision]bool{}
		for _, t := range f.tasks {
			if t.on == n {
				t.lost++
				lost = append(lost, Lost{Task: t.id, Token: t.token})
				since[t.token] = t.claimed.After(n.diedAt.Add(-RecentFor))
				t.on, t.free, t.scatter = nil, f.now, f.random.IntN(2)
			}
		}
		d.list(lost, func(l Lost) bool { return since[l.Token] })
		n.record = d.Incarnation
		f.book.Judge(&d, Fleet{f.limits, len(f.tasks)}, f.now)
		f.record(d)
		f.set()
	}
	if n.seen && !f.now.Before(n.backAt) {
		d := f.recorded(n.record)
		d.Restarted = true
		f.book.Judge(d, Fleet{f.limits, len(f.tasks)}, f.now)
		f.set()
		n.diedAt = time.Time{}
	}
}

func (f *fleet) set() { f.book.Set(f.deaths, false, f.created, f.now) }

// record keeps a death, and not what is outdated by it.
func (f *fleet) record(d Death) {
	latest := slices.Clone(f.deaths)
	slices.Reverse(latest)
	for _, old := range Outdated(latest, d.Node) {
		f.deaths = slices.DeleteFunc(f.deaths, func(d Death) bool { return d.Incarnation == old.Incarnation })
	}
	f.deaths = append(f.deaths, d)
}

// recorded returns the record of a death.
func (f *fleet) recorded(incarnation string) *Death {
	return &f.deaths[slices.IndexFunc(f.deaths, func(d Death) bool { return d.Incarnation == incarnation })]
}

// refute has those continue who are not to blame, as it turned out.
func (f *fleet) refute() {
	for _, r := range f.book.Refuted(len(f.tasks), f.now) {
		*f.recorded(r.Death.Incarnation) = r.Death
		f.set()
		for _, t := range f.tasks {
			if t.id == r.Task && f.book.Blamed(t.id, 0) == nil {
				t.aside, t.free = false, f.now
			}
		}
	}
}

// leaves reports whether a node leaves a task that has died again to others; see Scatter.
func (f *fleet) leaves(n *modelNode, t *modelTask) bool {
	return t.lost > 0 && len(f.nodes) > 1 && f.now.Before(t.free.Add(scatterFor)) && n.number%2 != t.scatter
}

// claim has the nodes claim what is open, each one that holds least.
func (f *fleet) claim() {
	holds := map[*modelNode]int{}
	for _, t := range f.tasks {
		if t.on != nil {
			holds[t.on]++
		}
	}
	for _, t := range f.tasks {
		if t.on != nil || t.aside || f.book.OpenAt(t.id, 0, f.now).After(f.now) {
			continue
		}
		if f.book.Blamed(t.id, 0) != nil {
			t.aside = true
			continue
		}
		rivals := map[*modelNode]bool{}
		if f.now.Before(f.book.OpenAt(t.id, 0, f.now).Add(ApartFor)) {
			for _, r := range f.book.Rivals(t.id, 0, f.now) {
				for _, o := range f.tasks {
					if o.id == r && o.on != nil {
						rivals[o.on] = true
					}
				}
			}
		}
		var to *modelNode
		for _, i := range f.random.Perm(len(f.nodes)) {
			n := f.nodes[i]
			if n.up() && !rivals[n] && !f.leaves(n, t) && (to == nil || holds[n] < holds[to]) {
				to = n
			}
		}
		if to == nil {
			continue
		}
		holds[to]++
		f.give(t, to)
	}
}

func (f *fleet) give(t *modelTask, to *modelNode) {
	f.token++
	t.on, t.claimed, t.token, t.fires = to, f.now, f.token, time.Time{}
	if t.kills != nil {
		t.fires = f.now.Add(t.kills())
	}
}
