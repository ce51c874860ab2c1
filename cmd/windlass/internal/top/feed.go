package top

import (
	"context"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/tree"
)

// Times of a feed.
const (
	// treeEvery bounds how often the tree is built.
	treeEvery = 500 * time.Millisecond
	// probeEvery is how often the broker is asked whether it is back.
	probeEvery = 2 * time.Second
)

// update is what a model takes from a feed.
type update struct {
	changes
	rates rates
	// forest is the tree if it has changed, nil otherwise.
	forest *tree.Forest
	// trouble is why the broker cannot be followed, nil if it can, from since on.
	trouble error
	since   time.Time
	at      time.Time
}

// feed follows a cluster. Its run is the writer, take the reader.
type feed struct {
	client    *windlass.Client
	broker    broker.Broker
	namespace string

	mu      sync.Mutex
	pending changes
	pulse   *pulse
	forest  *tree.Forest
	trouble error
	since   time.Time
	showing bool
	// turn ends the wait, or the watch, of followTree after a change of showing.
	turn context.CancelFunc
}

func newFeed(client *windlass.Client, b broker.Broker, namespace string) *feed {
	return &feed{
		client: client, broker: b, namespace: namespace, pending: noChanges(), pulse: newPulse(time.Now()),
		since: time.Now(), turn: func() {},
	}
}

func noChanges() changes {
	return changes{tasks: map[string]windlass.TaskChange{}, nodes: map[string]windlass.NodeChange{}, elections: map[string]election.LineChange{}}
}

func (f *feed) run(ctx context.Context) {
	var following sync.WaitGroup
	following.Go(func() {
		f.beginPulse(ctx)
		for change, err := range f.client.WatchTasks(ctx, windlass.Filter{}) {
			f.put(err, func(now time.Time) {
				f.pending.tasks[change.Task.ID] = change
				f.pulse.see(change, now)
			})
		}
	})
	following.Go(func() {
		for change, err := range f.client.WatchNodes(ctx) {
			f.put(err, func(time.Time) { f.pending.nodes[change.Node.Name] = change })
		}
	})
	following.Go(func() {
		for change, err := range election.Watch(ctx, f.broker, f.namespace) {
			f.put(err, func(time.Time) { f.pending.elections[change.Election.Name] = change })
		}
	})
	following.Go(func() { f.followTree(ctx) })
	following.Go(func() { f.probe(ctx) })
	following.Wait()
}

// beginPulse reads the present revision, until there is an answer. The revision of the
// first change is too late if there are no tasks yet: it may have claims already.
func (f *feed) beginPulse(ctx context.Context) {
	space, err := keys.New(f.namespace)
	if err != nil {
		f.put(err, nil)
		return
	}
	for ctx.Err() == nil {
		_, rev, err := broker.Collect(ctx, f.broker, space.Nodes())
		if err == nil {
			f.put(nil, func(time.Time) { f.pulse.since = int64(rev) })
			return
		}
		f.put(err, nil)
		pause.For(ctx, probeEvery)
	}
}

// put takes a change, or the error that came in its place.
func (f *feed) put(err error, take func(now time.Time)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	switch {
	case err == nil:
		take(now)
	case f.trouble == nil:
		f.trouble, f.since = err, now
	default:
		f.trouble = err
	}
}

// probe asks the broker now and then whether it is back, while it is not.
func (f *feed) probe(ctx context.Context) {
	ticks := time.NewTicker(probeEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		f.mu.Lock()
		trouble := f.trouble
		f.mu.Unlock()
		if trouble == nil {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, probeEvery)
		_, err := operate.New(f.client).Layout(asking)
		cancel()
		f.mu.Lock()
		if err == nil && f.trouble == trouble { // otherwise a watch has failed since
			f.trouble, f.since = nil, time.Now()
		}
		f.mu.Unlock()
	}
}

// showTree starts or stops following the tree.
func (f *feed) showTree(showing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.showing != showing {
		f.showing = showing
		f.turn()
	}
}

func (f *feed) followTree(ctx context.Context) {
	t, err := tree.New(f.broker, f.namespace)
	if err != nil {
		f.put(err, nil)
		return
	}
	for ctx.Err() == nil {
		turned, turn := context.WithCancel(ctx)
		f.mu.Lock()
		f.turn = turn
		showing := f.showing
		f.mu.Unlock()
		if !showing {
			<-turned.Done()
			continue
		}
		for forest, err := range t.Watch(turned, treeEvery) {
			f.put(err, func(time.Time) { f.forest = forest })
		}
		turn()
	}
}

// take returns the changes since the last call.
func (f *feed) take() update {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	u := update{changes: f.pending, rates: f.pulse.rates(now), forest: f.forest, trouble: f.trouble, since: f.since, at: now}
	f.pending, f.forest = noChanges(), nil
	return u
}
