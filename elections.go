package windlass

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// RetentionElection is the election by which the nodes that have a
// Config.Retention agree which one of them applies it.
const RetentionElection = keys.RetentionElection

// Election makes this node a candidate in an election, under its own name and on
// its own session: what it leads ends when its claims do. The election has to be
// started, and is stopped for good when Run ends. Draining and freezing are about
// tasks; a node resigns by Election.Resign. The errors are *election.ConfigError
// and election.ErrTwice.
func (n *Node) Election(name string, events election.Events) (*election.Election, error) {
	return n.member.Election(name, events)
}

// stand stands in the node's own election, if it has one.
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

// electionPrefix tells an election from a task where both are named.
const electionPrefix = "election:"

// leading names the elections in which a function runs that relies on a session.
func (n *Node) leading(s *session.Session) (names []string) {
	for _, name := range n.host.Leading(s) {
		names = append(names, electionPrefix+name)
	}
	return names
}

// closeElections leaves all elections while the handlers return, when the node's
// context ends; wait returns when that is done or has taken too long.
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

// shutdownGrace is how long handlers have to return when the node is stopped.
func (in *incarnation) shutdownGrace() time.Duration {
	if in.config.ShutdownGrace > 0 {
		return in.config.ShutdownGrace
	}
	return in.session.Timing().Grace
}
