package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

const systemWindlass = "windlass"

// noopType is the type of all jobs of BenchmarkPeers.
const noopType = "noop"

// windlassStore is an etcd with one member, and a tree of jobs in it.
type windlassStore struct {
	tuned  bool
	server *etcdCluster
	broker *etcd.Broker
	tree   *tree.Tree
}

func openWindlass(tb testing.TB, tuned bool) store { return newWindlassStore(tb, tuned) }

func newWindlassStore(tb testing.TB, tuned bool) *windlassStore {
	tb.Helper()
	s := &windlassStore{server: startEtcd(tb, 1, environment(tuned)...), tuned: tuned}
	s.broker = openEtcd(tb, etcd.Config{Endpoints: s.server.endpoints})
	s.tree = newTree(tb, s.broker)
	return s
}

func (s *windlassStore) order() workerOrder {
	return workerOrder{System: systemWindlass, Address: s.server.endpoints[0], Tuned: s.tuned}
}

func (s *windlassStore) enqueue(ctx context.Context, first, n int) error {
	return s.queue(ctx, first, n, func([]tree.Queued) {})
}

// queue queues jobs, and calls each with those that are queued.
func (s *windlassStore) queue(ctx context.Context, first, n int, each func([]tree.Queued)) error {
	for at := first; at < first+n; at += tree.ChildrenMax {
		requests := make([]tree.Request, min(tree.ChildrenMax, first+n-at))
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%08d", at+i), Type: noopType}
		}
		queued, err := s.tree.Queue(ctx, requests...)
		if err != nil {
			return err
		}
		each(queued)
	}
	return nil
}

func (s *windlassStore) settled(context.Context) (time.Time, error) { return time.Time{}, nil }

func (s *windlassStore) pids() []int { return s.server.pids() }

func (s *windlassStore) close() error { return errors.Join(s.broker.Close(), s.server.close()) }

func consumeWindlass(ctx context.Context, o workerOrder, c *counter) error {
	return runNode(ctx, o, windlass.Config{
		Handlers: map[string]windlass.NewHandler{noopType: windlass.HandlerFunc(func(context.Context, *windlass.Claim) error {
			c.runs()
			return nil
		})},
		Events: events.Node{
			Joined: func(string, session.Timing) { c.ready() },
			Ended: func(e events.End) {
				if e.Outcome == events.Completed {
					c.completes()
				}
			},
		},
	})
}

// runNode runs a node of a configuration in a worker process.
func runNode(ctx context.Context, o workerOrder, config windlass.Config) (err error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{o.Address}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	config.Broker, config.Name = store, o.Name
	node, err := windlass.NewNode(config)
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

const (
	// bareBatch is how many jobs etcd-bare claims and completes in a call, bareCalls the
	// number of calls at once, like those of three nodes.
	bareBatch = 1000
	bareCalls = 6
)

// bareStore is an etcd on which jobs are claimed and completed without a node.
type bareStore struct {
	*windlassStore
	coord coordinator.Coordinator
	owner coordinator.Identity
}

func openBare(tb testing.TB, tuned bool) store {
	tb.Helper()
	s := &bareStore{windlassStore: newWindlassStore(tb, tuned)}
	session, err := s.broker.Grant(tb.Context(), "", time.Hour) // it is not renewed
	must(tb, err)
	s.owner = coordinator.Identity{Namespace: windlass.NamespaceDefault, Node: "w0", Session: session.ID, Incarnation: "bare"}
	s.coord, err = coordinator.New(s.broker, s.owner)
	must(tb, err)
	return s
}

// enqueue queues jobs, and at the same time claims and completes those already queued.
func (s *bareStore) enqueue(ctx context.Context, first, n int) error {
	all, ctx := errgroup.WithContext(ctx)
	queued := make(chan []tree.Queued, (n+bareBatch-1)/bareBatch)
	all.Go(func() error {
		defer close(queued)
		return s.queue(ctx, first, n, func(some []tree.Queued) {
			for batch := range slices.Chunk(some, bareBatch) {
				queued <- batch
			}
		})
	})
	for range bareCalls {
		all.Go(func() error {
			for batch := range queued {
				if err := s.run(ctx, batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// settled is right after the last job was completed.
func (s *bareStore) settled(context.Context) (time.Time, error) { return time.Now(), nil }

// run claims jobs and completes them.
func (s *bareStore) run(ctx context.Context, batch []tree.Queued) error {
	wanted := make([]coordinator.Wanted, len(batch))
	for i, q := range batch {
		wanted[i] = coordinator.Wanted{Ref: coordinator.Ref{ID: q.ID}, WithoutProps: true}
	}
	claimedAt := time.Now().UTC()
	endings := make([]coordinator.Ending, len(batch))
	for i, r := range s.coord.Claim(ctx, wanted) {
		if r.Err != nil {
			return fmt.Errorf("claim: %w", r.Err)
		}
		state, err := s.state(r.Granted, claimedAt)
		if err != nil {
			return err
		}
		endings[i] = r.Granted.Ending(coordinator.Done)
		endings[i].State, endings[i].Unrecorded, endings[i].Forget = state, true, true
	}
	for _, r := range s.coord.End(ctx, endings) {
		if r.Err != nil {
			return fmt.Errorf("complete: %w", r.Err)
		}
	}
	return nil
}

// state returns the state that a node writes for a completed job.
func (s *bareStore) state(g coordinator.Granted, claimedAt time.Time) ([]byte, error) {
	now := time.Now().UTC()
	return json.Marshal(statemachine.Record{
		State: statemachine.Completed, Type: noopType, Node: s.owner.Node, Token: int64(g.Token),
		SubmittedAt: &claimedAt, ClaimedAt: &claimedAt, ChangedAt: &now, Digest: fmt.Sprintf("%024x", int64(g.Created)),
	})
}
