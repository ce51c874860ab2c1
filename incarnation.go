package windlass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/session"
)

// incarnation is one life of a node: one session, and everything that belongs to it.
// Its loop is the only goroutine that uses the fields below; every other goroutine
// sends to its channels.
type incarnation struct {
	node    *Node
	config  Config
	events  events.Node
	session *session.Session
	coord   coordinator.Coordinator
	// listener reports the commands to tasks.
	listener coordinator.Listener

	tasks *mirror.Tasks
	nodes *mirror.Nodes
	// fleet has the nodes and what they hold, board has the tasks that no node holds,
	// and giving decides what this node gives away.
	fleet  *schedule.Fleet
	board  *schedule.Board
	giving *schedule.Giving
	// deaths has the nodes that have died, and what they held.
	deaths *deaths.Keeper

	info        NodeInfo
	infoCreated broker.Revision

	runs map[string]*run
	// paused has the types that are paused.
	paused map[string]bool
	// pullAt is when the next call of TryDequeue is to be answered, zero for never.
	pullAt time.Time
	// claims combines the sums of all runs, as mirror.Sums does.
	claims uint64
	parked parkedQueue
	// timeouts has the times at which runs exceed their timeout.
	timeouts schedule.Times
	// commands has the waiting commands to all tasks.
	commands map[string]*taskCommand
	// commandsKnown is true once the existing commands were listed. Until then nothing
	// is claimed: a command would be heard only after the task's handler started.
	commandsKnown bool
	// alive ends when the session is lost or the node is told to stop. It is for calls
	// on which nothing depends then.
	alive      context.Context
	deactivate context.CancelFunc

	// kinds parses specs.
	kinds *kind.Kinds[Spec]
	// loadAt is when to read the load again.
	loadAt time.Time
	// endedByUs has the claims that this node has ended.
	endedByUs endedClaims

	// out has the pending writes and reads.
	out *outgoing

	commandsDone map[string]bool
	auditAt      time.Time
	stage        stage
	closeBy      time.Time

	// updates carries the updates of the followers of the broker, in the order of each;
	// inbox carries everything else. inbox has no buffer: if the return of a handler
	// were in it when the loop ends, it would be lost.
	updates, inbox chan func()
	// over is closed when the loop has ended and no longer reads its channels.
	over chan struct{}
	// work counts the goroutines of calls to the broker.
	work sync.WaitGroup
}

// incarnate runs one incarnation: it opens a session, registers, works, and cleans up.
// It returns nil after a graceful stop.
func (n *Node) incarnate(ctx context.Context) error {
	s, release, err := session.Keep(ctx, n.config.Broker, session.Config{
		TTL: n.config.SessionTTL, Folder: n.space.Sessions(), Clock: n.config.Clock, Renewed: n.config.Renewed, Hard: n.fence,
	})
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	defer release()
	in := newIncarnation(n, s)
	n.incarnations = append(n.incarnations, s.Incarnation())
	// The new owners of earlier incarnations' tasks, and this node's own
	// registration, would wait for their sessions to expire.
	if err := n.past.Settle(ctx); err != nil {
		in.events.BrokerTrouble(err)
	}
	if err := in.join(ctx); err != nil {
		in.closeSession(ctx)
		return err
	}
	in.node.live.Store(s)
	in.events.Joined(s.Incarnation(), s.Timing())
	n.host.Attach(s)
	electionsLeft := in.closeElections(ctx)
	abandoned := in.live(ctx)
	electionsLeft()
	if s.Context().Err() != nil {
		n.host.Settle(s)
	}
	return in.leave(ctx, append(abandoned, n.leading(s)...))
}

func newIncarnation(n *Node, s *session.Session) *incarnation {
	in := &incarnation{
		node: n, config: n.config, events: n.events, session: s, nodes: mirror.NewNodes(n.space),
		kinds: kind.New(readKind),
		info:  n.config.info(s, n.startedAt),
		runs:  map[string]*run{}, parked: newParkedQueue(), endedByUs: endedClaims{},
		commandsDone: map[string]bool{}, out: newOutgoing(n.config.Name, s.Incarnation(), n.auditQueue),
		updates: make(chan func(), updatesAhead), inbox: make(chan func()), over: make(chan struct{}),
	}
	in.fleet = schedule.NewFleet(schedule.Config{
		Name: n.config.Name, Limits: n.config.Concurrency, TTL: s.Timing().TTL, FailoverRate: n.config.FailoverRate,
	})
	in.alive, in.deactivate = context.WithCancel(s.Context())
	in.tasks = mirror.NewTasks(n.space, mirror.Keep{
		Props: n.config.NewTask != nil, Kind: func(spec []byte) any { return in.kinds.Of(spec) }, Count: in.count, Recount: in.recount,
		Ended: func(e mirror.Ended) { in.deaths.Ended(e) }, Mine: s.ID(), Skips: coordinator.Skips,
	})
	in.deaths = in.newDeaths()
	in.out.begin = func(call func() func()) { in.work.Go(func() { in.arrive(call()) }) }
	in.out.rows = rowsOf(in)
	in.board = in.newBoard()
	in.giving = in.newGiving()
	return in
}

// join registers the node under its name.
func (in *incarnation) join(ctx context.Context) error {
	n := in.node
	coord, err := coordinator.New(in.config.Broker, coordinator.Identity{
		Namespace: in.config.Namespace, Node: in.config.Name,
		Session: in.session.ID(), Incarnation: in.session.Incarnation(),
	})
	if err != nil {
		return err
	}
	in.coord = coord
	if in.listener, err = coordinator.NewListener(in.config.Broker, in.config.Namespace, mirror.ReconcileEvery); err != nil {
		return err
	}
	if in.config.Coordinator != nil {
		in.coord = in.config.Coordinator(coord)
	}
	// Losing a session is no restart: the node's modes still apply.
	in.info.Frozen, in.info.Draining = n.Frozen(), n.draining.Load()
	if err := in.register(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	n.joined = true
	n.mu.Unlock()
	return nil
}

// live runs the loop until the incarnation is over, and returns the tasks whose
// handlers have not returned.
func (in *incarnation) live(ctx context.Context) (abandoned []string) {
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	in.follow(following)
	ending, stopEnding := context.WithCancel(context.WithoutCancel(ctx))
	in.loop(ctx, ending)
	stopFollowing()
	stopEnding()
	in.deactivate()
	for id, r := range in.runs {
		if r.handle != nil {
			abandoned = append(abandoned, id)
		}
		r.dequeued.settle(events.Dropped) // nobody else would tell its caller
		r.dequeued = nil
		r.claim.trace.recorded(events.Dropped)
	}
	slices.Sort(abandoned)
	// Recorded before over is closed: a handler that returns later finds over
	// closed and removes itself from the record.
	in.node.leaveBehind(abandoned)
	close(in.over)
	in.work.Wait()
	in.node.auditQueue = in.out.audit.HandDown()
	in.node.mu.Lock()
	clear(in.node.held)
	in.node.states = [statesShown]int{}
	in.node.mu.Unlock()
	in.node.live.Store(nil)
	in.node.fleet.Store(nil)
	return abandoned
}

// leave ends the session, unless handlers or leading functions still run on it. Their
// claims and entries must not become free before the session would have expired.
func (in *incarnation) leave(ctx context.Context, abandoned []string) error {
	cause := context.Cause(in.session.Context())
	if len(abandoned) == 0 {
		in.closeSession(ctx)
	} else {
		in.session.End(session.ErrClosed)
	}
	in.events.Left(in.session.Incarnation(), cause, abandoned)
	if len(abandoned) > 0 {
		cause = errors.Join(cause, fmt.Errorf("%w: %q", ErrAbandoned, abandoned))
	}
	return cause
}

// closeSession revokes the session, or lets it expire if the broker does not answer
// soon.
func (in *incarnation) closeSession(ctx context.Context) {
	if err := in.node.past.Close(context.WithoutCancel(ctx), in.session); err != nil {
		in.events.BrokerTrouble(err)
	}
}

// updatesAhead is how many updates may wait for the loop.
const updatesAhead = 64

// follow starts the followers of the broker; the loop applies their updates.
func (in *incarnation) follow(ctx context.Context) {
	bring := func(take func()) {
		select {
		case in.updates <- take:
		case <-ctx.Done():
		}
	}
	start := func(source mirror.Source, apply func(mirror.Update)) {
		source.Broker, source.Reconcile = in.config.Broker, mirror.ReconcileEvery
		in.work.Go(func() {
			mirror.Follow(ctx, source, func(u mirror.Update) { bring(func() { apply(u) }) })
		})
	}
	start(mirror.Source{Prefix: in.node.space.Tasks(), Strip: in.tasks.Strip, Prepare: in.tasks.Prepare}, in.applyTasks)
	start(mirror.Source{Prefix: in.node.space.Nodes()}, in.applyNodes)
	in.work.Go(func() {
		in.listener.Listen(ctx, func(h coordinator.Heard) { bring(func() { in.heard(h) }) })
	})
}

// arrive passes an update to the loop. It returns false if the loop is over.
func (in *incarnation) arrive(take func()) bool {
	select {
	case in.inbox <- take:
		return true
	case <-in.over:
		return false
	}
}

// shutdownGrace returns how long handlers have to return when the node is stopped.
func (in *incarnation) shutdownGrace() time.Duration {
	if in.config.ShutdownGrace > 0 {
		return in.config.ShutdownGrace
	}
	return in.session.Timing().Grace
}
