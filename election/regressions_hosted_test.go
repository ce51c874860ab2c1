package election

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// forge puts keys into an election's folder by hand.
func (c *cluster) forge(election string, names ...string) {
	c.Helper()
	for _, name := range names {
		c.commit(broker.Put("/test/elections/"+election+"/"+name, []byte("x")))
	}
}

// TestElection_KeysThatAreNoCandidatesHideNobody is about a candidate that reads the
// end of a queue which somebody's keys have been put into.
func TestElection_KeysThatAreNoCandidatesHideNobody(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar, quux := c.member("foo"), c.member("bar"), c.member("quux")
		first, second := foo.join("e"), bar.join("e")
		for i := range 20 {
			c.forge("e", fmt.Sprintf("no/candidate-%d", i))
		}
		third := quux.join("e")
		c.check(second.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(first, true)
		c.wantLeader(third, false)
		c.check(first.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(third, true)
	})
}

// TestElection_AnEntryThatWasOverwrittenIsReplaced is about an entry that somebody
// has put by hand over a candidate's own, and that would never expire.
func TestElection_AnEntryThatWasOverwrittenIsReplaced(t *testing.T) {
	inCluster(t, func(c *cluster) {
		_, _, first, second := c.pair()
		c.forge("e", "foo")
		c.sleep(time.Second)
		c.wantLeader(second, true)
		c.wantLine("e", "bar", "foo")
		c.forge("e", "foo") // it does not know before it is the first
		c.check(second.Stop(c.Context()))
		c.sleep(time.Second)
		c.wantLeader(first, true)
		c.check(first.Stop(c.Context()))
		c.wantLine("e")
	})
}

// hasty is a broker that sees the deadline of a watch pass before its caller does.
type hasty struct{ broker.Broker }

// Watch implements broker.Broker.
func (b hasty) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	deadline, ok := ctx.Deadline()
	if !ok {
		return b.Broker.Watch(ctx, prefix, from)
	}
	return func(yield func(broker.Batch, error) bool) {
		watched, cancel := context.WithDeadline(ctx, deadline.Add(-time.Millisecond))
		defer cancel()
		for batch, err := range b.Broker.Watch(watched, prefix, from) {
			if !yield(batch, err) {
				return
			}
		}
	}
}

func TestElection_LookingNowAndThenIsNoTrouble(t *testing.T) {
	inCluster(t, func(c *cluster) {
		connect := c.connect
		c.connect = func() broker.Broker { return hasty{connect()} }
		c.member("foo").join("e")
		c.member("bar").join("e")
		c.noted()
		c.sleep(10 * lookEvery)
		c.happened()
	})
}
