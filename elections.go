package windlass

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// Election makes this node a candidate in an election, under its own name and on its
// own session: its leadership ends when its claims do. The caller must start the
// election, and it stops for good when Run ends. Draining and freezing affect tasks
// only; a node resigns by Election.Resign. The errors are *BadInputError and
// election.ErrTwice.
func (n *Node) Election(name string, events election.Events) (*election.Election, error) {
	return n.member.Election(name, events)
}

// electionPrefix distinguishes an election from a task where both are named.
const electionPrefix = "election:"

// stand joins the retention election, if the node has a retention.
func (n *Node) stand(ctx context.Context) (ended *sync.WaitGroup, err error) {
	ended = &sync.WaitGroup{}
	if n.config.Retention == (Retention{}) {
		return ended, nil
	}
	e, err := n.host.Retention(election.Events{Error: func(err error) {
		n.events.BrokerTrouble(fmt.Errorf("election of the node that applies the retention: %w", err))
	}})
	if err == nil {
		err = e.Start()
	}
	if err != nil {
		return nil, err
	}
	ended.Go(func() { n.retain(context.WithoutCancel(ctx), e) })
	return ended, nil
}

// leading returns the elections in which a function runs that relies on the session.
func (n *Node) leading(s *session.Session) (names []string) {
	for _, name := range n.host.Leading(s) {
		names = append(names, electionPrefix+name)
	}
	return names
}

// closeElections leaves all elections when the node's context ends, while the handlers
// return. wait returns when that is done or has taken too long.
func (in *incarnation) closeElections(ctx context.Context) (wait func()) {
	stop := func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.shutdownGrace())
		defer cancel()
		if err := in.node.host.Stop(limited); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			in.events.BrokerTrouble(err)
		}
	}
	left := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		defer close(left)
		stop()
	})
	return func() {
		switch {
		case !unregister():
			<-left
		case ctx.Err() != nil: // the loop was told before the function above
			stop()
		}
	}
}

// retain applies the retention while this node leads the retention election, so that
// one node at a time does so.
func (n *Node) retain(ctx context.Context, e *election.Election) {
	_ = e.Lead(ctx, func(ctx context.Context, _ election.Term) error {
		client, err := NewClient(n.config.Broker, n.config.Namespace)
		if err != nil {
			return err // cannot be: the node has the same configuration
		}
		for {
			if _, err := client.Prune(ctx, n.config.Retention, Filter{}, false); err != nil && ctx.Err() == nil {
				n.events.BrokerTrouble(fmt.Errorf("apply the retention: %w", err))
			}
			if !pause.For(ctx, RetentionEvery) {
				return context.Cause(ctx)
			}
		}
	}) // which ends when the node does
}
