package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/tree"
)

var (
	windlassSide = side{
		name: SideWindlass,
		settings: "etcd of one member, which has every write on disk before it acknowledges it; jobs of a tree, queued in calls of up to 10,000; " +
			"a node with its defaults in each worker process",
		missing: nothingMissing, open: openWindlass(false),
	}
	windlassTunedSide = side{
		name:     SideWindlassTuned,
		settings: "the same with " + collector + " in etcd and in the workers",
		missing:  nothingMissing, open: openWindlass(true),
	}
)

func nothingMissing() string { return "" }

func openWindlass(tuned bool) func(context.Context, string) (store, error) {
	return func(ctx context.Context, dir string) (store, error) {
		var env []string
		if tuned {
			env = append(env, collector)
		}
		server, err := servers.StartEtcd(ctx, dir, 1, env...)
		if err != nil {
			return nil, err
		}
		s := &windlassStore{server: server, tuned: tuned}
		if s.broker, err = etcd.Open(ctx, etcd.Config{Endpoints: server.Endpoints}); err == nil {
			s.tree, err = tree.New(s.broker, "")
		}
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	}
}

// windlassStore is an etcd.
type windlassStore struct {
	tuned  bool
	server *servers.Etcd
	broker *etcd.Broker
	tree   *tree.Tree
}

func (s *windlassStore) order() order {
	return order{System: systemWindlass, Addresses: s.server.Endpoints, Tuned: s.tuned}
}

// jobType is that of all jobs.
const jobType = "noop"

func (s *windlassStore) enqueue(ctx context.Context, first, n int) error {
	return s.queue(ctx, first, n, func([]tree.Queued) {})
}

// queue calls each with what is queued.
func (s *windlassStore) queue(ctx context.Context, first, n int, each func([]tree.Queued)) error {
	for at := first; at < first+n; at += tree.ChildrenMax {
		requests := make([]tree.Request, min(tree.ChildrenMax, first+n-at))
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%08d", at+i), Type: jobType}
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

func (s *windlassStore) pids() []int { return s.server.Pids() }

func (s *windlassStore) close() error {
	var err error
	if s.broker != nil {
		err = s.broker.Close()
	}
	return errors.Join(err, s.server.Close())
}

func consumeWindlass(ctx context.Context, o order, c *counter) (err error) {
	store, err := etcd.Open(ctx, etcd.Config{Endpoints: o.Addresses})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	node, err := windlass.NewNode(windlass.Config{
		Broker: store, Name: o.Name,
		Handlers: map[string]windlass.NewHandler{jobType: windlass.HandlerFunc(func(context.Context, *windlass.Claim) error {
			c.runs()
			return nil
		})},
		Events: windlass.Events{
			Joined: func(string, session.Timing) { c.ready() },
			Ended: func(e windlass.End) {
				if e.Outcome == windlass.OutcomeCompleted {
					c.completes(1)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}
