package windlass

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/session"
)

// NodeChange is a node that joined or changed, or that is gone.
type NodeChange struct {
	Node NodeStatus
	// Gone is true if the node left; only its name is set then.
	Gone bool
	// Revision is the store revision at which the watch learned of the change; as in
	// TaskChange.
	Revision int64
}

// WatchNodes yields the nodes that Client.Nodes lists, sorted by name, and then every change,
// including changes of their number of tasks and that one is not renewed any more, until ctx
// is done or the caller stops. If the broker is unreachable, it yields the error and continues
// once the broker is back; the caller may stop instead.
func (c *Client) WatchNodes(ctx context.Context) iter.Seq2[NodeChange, error] {
	return func(yield func(NodeChange, error) bool) {
		w := nodeWatch{
			nodes: mirror.NewNodes(c.space), tasks: mirror.NewTasks(c.space, mirror.Keep{}),
			shown: map[string]NodeStatus{}, yield: yield,
		}
		ctx, cancel := context.WithCancel(ctx)
		var looking sync.WaitGroup
		defer looking.Wait()
		defer cancel()
		looks := make(chan time.Time)
		looking.Go(func() {
			session.WatchSilence(ctx, c.broker, c.space.Sessions(), nil, func(now map[broker.SessionID]time.Time) {
				w.fellSilent(now)
				select {
				case looks <- time.Now():
				case <-ctx.Done():
				}
			})
		})
		sources := []mirror.Source{{Prefix: c.space.Nodes()}, {Prefix: c.space.Tasks(), Strip: w.tasks.Strip}}
		mirror.FollowAll(ctx, c.broker, sources, looks, w.take)
	}
}

// nodeWatch is the state of a watch. One goroutine calls its methods, except fellSilent.
type nodeWatch struct {
	nodes *mirror.Nodes
	tasks *mirror.Tasks
	// shown has what the caller has seen.
	shown map[string]NodeStatus
	at    broker.Revision
	yield func(NodeChange, error) bool

	mu sync.Mutex
	// silent has the sessions that are not renewed.
	silent map[broker.SessionID]time.Time
}

func (w *nodeWatch) fellSilent(now map[broker.SessionID]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = now
}

func (w *nodeWatch) silentSince(n *mirror.Node) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silent[n.Session]
}

// take applies an update, and shows what it has changed once everything is known.
func (w *nodeWatch) take(u mirror.Sourced, complete bool) bool {
	switch {
	case u.Source == mirror.Woken:
		return !complete || w.show()
	case u.Err != nil:
		return w.yield(NodeChange{}, fmt.Errorf("watch nodes: %w", u.Err))
	case u.Source == 0 && u.Snapshot != nil:
		w.nodes.Reset(u.Snapshot)
	case u.Source == 0:
		w.nodes.Apply(u.Batch)
	case u.Snapshot != nil:
		w.tasks.Reset(u.Snapshot)
	default:
		w.tasks.Apply(u.Batch)
	}
	w.at = u.Revision()
	return !complete || w.show()
}

// show yields the differences from what was shown.
func (w *nodeWatch) show() bool {
	there := map[string]bool{}
	for _, status := range nodeStatuses(w.nodes, w.tasks, w.silentSince) {
		there[status.Name] = true
		if was, ok := w.shown[status.Name]; ok && reflect.DeepEqual(was, status) {
			continue
		}
		w.shown[status.Name] = status
		if !w.yield(NodeChange{Node: status, Revision: int64(w.at)}, nil) {
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.shown)) {
		if there[name] {
			continue
		}
		delete(w.shown, name)
		if !w.yield(NodeChange{Node: NodeStatus{NodeInfo: NodeInfo{Name: name}}, Gone: true, Revision: int64(w.at)}, nil) {
			return false
		}
	}
	return true
}
