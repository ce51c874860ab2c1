package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

// bareSide is what etcd does at best of what a job of ours asks of it: nobody follows
// anything, plans, or runs a handler.
var bareSide = side{
	name: SideBare,
	settings: "what Windlass, tuned, asks of etcd for a job, and nothing around it: one process queues, claims and completes in bulk, and follows nothing. " +
		"It is the limit that the store sets, whatever the workers do",
	missing: nothingMissing, open: openBare, alone: true,
}

const (
	// bareBatch is how many jobs are claimed and completed in a call, bareCalls how
	// many calls there are at once: as of three nodes.
	bareBatch = 1000
	bareCalls = 6
	// bareTTL is that of the session, which nobody renews.
	bareTTL = time.Hour
)

// bareStore is an etcd, and all that is done with it.
type bareStore struct {
	*windlassStore
	coord coordinator.Coordinator
	owner coordinator.Identity

	mu   sync.Mutex
	done int
	last time.Time
}

func openBare(ctx context.Context, dir string) (store, error) {
	server, err := servers.StartEtcd(ctx, dir, 1, collector)
	if err != nil {
		return nil, err
	}
	s := &bareStore{windlassStore: &windlassStore{server: server, tuned: true}}
	if s.broker, err = etcd.Open(ctx, etcd.Config{Endpoints: server.Endpoints}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	session, err := s.broker.Grant(ctx, "", bareTTL)
	if err == nil {
		s.owner = coordinator.Identity{Namespace: windlass.NamespaceDefault, Node: "w0", Session: session.ID, Incarnation: "bare"}
		s.coord, err = coordinator.New(s.broker, s.owner)
	}
	if err == nil {
		s.tree, err = tree.New(s.broker, "")
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// completed is how many jobs are done, and when the last one was.
func (s *bareStore) completed() (int, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done, s.last
}

// enqueue queues jobs, and has others claim and complete what is queued already.
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

// run claims jobs and completes them.
func (s *bareStore) run(ctx context.Context, batch []tree.Queued) error {
	wanted := make([]coordinator.Wanted, len(batch))
	for i, q := range batch {
		wanted[i] = coordinator.Wanted{ID: q.ID, WithoutProps: true}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.last = s.done+len(batch), time.Now()
	return nil
}

// state is what a node writes of a job that is completed.
func (s *bareStore) state(g coordinator.Granted, claimedAt time.Time) ([]byte, error) {
	now := time.Now().UTC()
	return json.Marshal(statemachine.Record{
		State: statemachine.Completed, Type: jobType, Node: s.owner.Node, Token: int64(g.Token),
		SubmittedAt: &claimedAt, ClaimedAt: &claimedAt, ChangedAt: &now, Digest: fmt.Sprintf("%024x", int64(g.Created)),
	})
}
