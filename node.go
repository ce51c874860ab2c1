package windlass

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/runner"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Node claims tasks and runs their handlers. Its methods are safe for concurrent use.
type Node struct {
	config    Config
	events    events.Node
	space     keys.Space
	startedAt time.Time

	started atomic.Bool
	done    chan struct{}
	// wake tells the loop that draining, or a task, was asked for.
	wake     chan struct{}
	draining atomic.Bool
	// handlers are all handlers that were started, in any incarnation.
	handlers runner.Group

	// pulls are the pending calls of Dequeue.
	pulls pulls

	// member takes part in elections on the sessions that host gives it.
	member *election.Member
	host   *election.Host

	// auditQueue has the audit records that the previous incarnation did not write.
	auditQueue []coordinator.AuditRecord
	// incarnations are the names of all sessions that this process has had, or has heard that
	// others have survived.
	incarnations []string
	// past has the lost sessions that are still to be ended at the broker.
	past session.Past

	mu sync.Mutex // never held during I/O or a callback
	// held has the claims of the current incarnation; states counts them by published
	// state.
	held   map[string]*run
	states [statesShown]int
	// leftBehind counts, by task, the handlers that outlived their incarnation. This
	// node does not claim those tasks.
	leftBehind map[string]int
	// frozen is the mode that the node was last told; it outlives an incarnation.
	frozen bool
	joined bool

	// live is the session of the current incarnation, nil while there is none. fleet is
	// what that incarnation knows of all tasks. Both are for Stats.
	live  atomic.Pointer[session.Session]
	fleet atomic.Pointer[fleetCount]
}

// RunningTask is a task that a node holds.
type RunningTask struct {
	// ID of the task.
	ID string `json:"id"`
	// Token is the fencing token of the claim.
	Token int64 `json:"token"`
	// Started is when its handler was started; zero while it is parked.
	Started time.Time `json:"started"`
	// Stopped is when its handler was first told to stop; zero if it was not.
	Stopped time.Time `json:"stopped,omitzero"`
	// Parked is true if the task is held without a handler because it sleeps, is paused
	// or cannot be read.
	Parked bool `json:"parked,omitempty"`
	// State is the task's state, empty if it cannot be read. Since is when the task
	// entered it.
	State statemachine.State `json:"state"`
	Since time.Time          `json:"since"`
}

// NewNode returns a node. It does nothing until Run is called.
func NewNode(config Config) (*Node, error) {
	config, space, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	member, host, err := election.NewHosted(election.Config{
		Broker: config.Broker, Namespace: config.Namespace, Candidate: config.Name, TTL: config.SessionTTL,
	})
	if err != nil {
		return nil, err
	}
	return &Node{
		config: config, events: config.Events.Whole(), space: space, startedAt: time.Now(), member: member, host: host,
		done: make(chan struct{}), wake: make(chan struct{}, 1),
		held: map[string]*run{}, leftBehind: map[string]int{}, pulls: pulls{waiting: map[string][]*pull{}},
		incarnations: slices.Clone(config.Survived),
	}, nil
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.config.Name }

// Done returns a channel that is closed when Run has returned.
func (n *Node) Done() <-chan struct{} { return n.done }

// Run joins the cluster and works until ctx is done. It then stops claiming, tells the
// handlers to stop, gives their tasks back and leaves. It returns nil, or ErrAbandoned
// if handlers did not return within the shutdown grace.
//
// An unreachable broker never ends Run: the node stops its handlers before its session
// can expire, and rejoins as a new incarnation once the broker is back. Run fails only
// if it never joined: with ErrNameTaken if a live node has the name, with ErrLayout if
// the namespace's layout is newer than this version supports, or with
// broker.ErrPermission. It can be called once.
func (n *Node) Run(ctx context.Context) error {
	if !n.started.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer close(n.done)
	standing, err := n.stand(ctx)
	if err != nil {
		return err
	}
	defer func() {
		n.host.Close()
		standing.Wait()
	}()
	wait := pause.Backoff{Min: rejoinMin, Max: rejoinMax}
	for {
		began := time.Now()
		err := n.incarnate(ctx)
		switch {
		case ctx.Err() != nil && errors.Is(err, ErrAbandoned):
			return err
		case ctx.Err() != nil:
			return nil // stopping was what was asked for
		case !n.hasJoined() && (errors.Is(err, ErrNameTaken) || errors.Is(err, ErrLayout) || errors.Is(err, broker.ErrPermission)):
			return err
		}
		n.events.Waiting(err)
		if time.Since(began) > rejoinMax {
			wait.Reset()
		}
		if !wait.Pause(ctx) {
			return nil
		}
	}
}

// Limits of the pause before a node rejoins.
const (
	rejoinMin = 200 * time.Millisecond
	rejoinMax = 5 * time.Second
)

// Drain makes the node give back its tasks at a limited pace and take no new ones. It
// returns when nothing is left, or when ctx is done, in which case the drain continues.
// Run continues in both cases. Drain returns ErrNotRunning if Run was not called yet.
func (n *Node) Drain(ctx context.Context) error {
	if !n.started.Load() {
		return ErrNotRunning
	}
	n.draining.Store(true)
	n.wakeUp()
	poll := time.NewTicker(drainTick)
	defer poll.Stop()
	for len(n.Tasks()) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-n.done:
			return nil
		case <-poll.C:
		}
	}
	return nil
}

// Tasks returns the tasks that this node holds, sorted by ID.
func (n *Node) Tasks() []RunningTask {
	n.mu.Lock()
	defer n.mu.Unlock()
	tasks := make([]RunningTask, 0, len(n.held))
	for _, r := range n.held {
		tasks = append(tasks, RunningTask{
			ID: r.claim.held.ID, Token: r.claim.Token(), Parked: r.published.parked,
			Started: n.timeOf(r.published.started), Stopped: n.timeOf(r.published.stopped),
			State: codedStates[r.published.state], Since: n.timeOf(r.published.since),
		})
	}
	slices.SortFunc(tasks, func(a, b RunningTask) int { return strings.Compare(a.ID, b.ID) })
	return tasks
}

// Frozen reports whether the node was told to claim nothing.
func (n *Node) Frozen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frozen
}

func (n *Node) hasJoined() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joined
}

// fence reports the handlers that have not returned by the hard deadline. The session's
// deadline goroutine calls it.
func (n *Node) fence() {
	if n.config.Fence != nil && len(n.overdue()) > 0 {
		n.config.Fence(n.overdue)
	}
}

// overdue returns the tasks whose handlers have not returned, and the elections in
// which a function still leads, sorted.
func (n *Node) overdue() []string {
	ids := n.leading(nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.held {
		if r.published.handle != nil && !r.published.handle.Returned() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// isLeftBehind reports whether a handler of an earlier claim of the task still runs in
// this process.
func (n *Node) isLeftBehind(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leftBehind[id] > 0
}

// leaveBehind records the handlers that outlive an incarnation.
func (n *Node) leaveBehind(ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		n.leftBehind[id]++
	}
}

// cameBack records that a handler that was left behind has returned.
func (n *Node) cameBack(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leftBehind[id]--; n.leftBehind[id] <= 0 {
		delete(n.leftBehind, id)
	}
}

// RetentionElection is the name of the election among the nodes with a
// Config.Retention. Its leader applies the retention.
const RetentionElection = keys.RetentionElection
