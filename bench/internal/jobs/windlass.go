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

var windlassSide = side{
	name: SideWindlass,
	settings: "etcd of one member, which has every write on disk before it acknowledges it; jobs of a tree, queued in calls of up to 10,000; " +
		"a node with its defaults in each worker process",
	missing: func() string { return "" },
	open: func(ctx context.Context, dir string) (store, error) {
		server, err := servers.StartEtcd(ctx, dir, 1)
		if err != nil {
			return nil, err
		}
		s := &windlassStore{server: server}
		if s.broker, err = etcd.Open(ctx, etcd.Config{Endpoints: server.Endpoints}); err == nil {
			s.tree, err = tree.New(s.broker, "")
		}
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		return s, nil
	},
}

// windlassStore is an etcd.
type windlassStore struct {
	server *servers.Etcd
	broker *etcd.Broker
	tree   *tree.Tree
}

func (s *windlassStore) order() order {
	return order{System: systemWindlass, Addresses: s.server.Endpoints}
}

// jobType is that of all jobs.
const jobType = "noop"

func (s *windlassStore) enqueue(ctx context.Context, first, n int) error {
	for at := first; at < first+n; at += tree.ChildrenMax {
		requests := make([]tree.Request, min(tree.ChildrenMax, first+n-at))
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%08d", at+i), Type: jobType}
		}
		if _, err := s.tree.Queue(ctx, requests...); err != nil {
			return err
		}
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
