package windlass

import (
	"context"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
)

const (
	// probationMin is the first probation, after the second death; each further death
	// doubles it, up to ProbationMax.
	probationMin = 10 * time.Second
	// ProbationMax is the longest time for which a node that has died repeatedly is given
	// nothing.
	ProbationMax = 10 * time.Minute
)

// probation returns until when a node that has died so often is given nothing, zero for
// one that is given its share at once.
func probation(died int) time.Time {
	if died < 2 {
		return time.Time{}
	}
	return time.Now().Add(min(probationMin<<(died-2), ProbationMax)).UTC()
}

// died returns how much more often than others the node has died within the last hour, as far
// as that is recorded, and no task explains why.
func (in *incarnation) died(ctx context.Context) (n int) {
	nodes, err := mirror.ListNodes(ctx, in.config.Broker, in.node.space)
	if err != nil {
		return 0 // whoever registers notices it as well
	}
	recorded := slices.DeleteFunc(deaths.Recorded(nodes), func(d events.Death) bool { return slices.Contains(in.node.incarnations, d.Incarnation) })
	var book deaths.Book
	book.Set(recorded, true, func(string) broker.Revision { return 0 }, time.Now())
	return book.Excess(in.config.Name, registeredIn(nodes))
}

// registeredIn returns the names of the nodes that are there.
func registeredIn(nodes *mirror.Nodes) (names []string) {
	for _, n := range nodes.Registered() {
		names = append(names, n.Name)
	}
	return names
}

// probationStep ends the node's probation when its time is over, when a task turns out to be
// to blame, or when no other node takes tasks.
func (in *incarnation) probationStep(now time.Time) {
	if in.info.Probation.IsZero() || !in.fleet.Complete(in.nodes.Revision(), now) {
		return
	}
	others := slices.ContainsFunc(in.fleet.Peers(), func(p schedule.Peer) bool { return p.Closed == "" })
	if others && now.Before(in.info.Probation) && !in.deaths.excused {
		return
	}
	in.info.Probation = time.Time{}
	in.out.publishInfo()
	in.board.Reconsider()
}
