package election

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// history is what a prefix held, each time that a laggard changed something.
type history struct {
	prefix string

	mu     sync.Mutex
	states []state // in order of their revisions
	stale  int     // how many answers were not the newest
}

type state struct {
	kvs []broker.KV
	rev broker.Revision
}

// laggard answers, where it may, as a member of the store that is as far behind as it
// may be.
type laggard struct {
	broker.Broker
	history *history
}

func (b *laggard) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	results := b.Broker.Commit(ctx, txns...)
	b.note(ctx)
	return results
}

func (b *laggard) Revoke(ctx context.Context, id broker.SessionID) error {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	defer b.note(ctx)
	return b.Broker.Revoke(ctx, id)
}

// note remembers the state. The history's mutex is held.
func (b *laggard) note(ctx context.Context) {
	if kvs, rev, err := broker.Collect(ctx, b.Broker, b.history.prefix); err == nil {
		b.history.states = append(b.history.states, state{kvs, rev})
	}
}

func (b *laggard) Latest(ctx context.Context, prefix string, upTo broker.Revision, n int, atLeast broker.Revision) ([]broker.KV, broker.Revision, error) {
	h := b.history
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range h.states {
		if atLeast == newest || prefix != h.prefix || s.rev < atLeast {
			continue
		}
		if i < len(h.states)-1 {
			h.stale++
		}
		var kvs []broker.KV
		for _, kv := range s.kvs {
			if kv.Created <= upTo {
				kvs = append(kvs, kv)
			}
		}
		return kvs, s.rev, nil
	}
	return broker.Latest(ctx, b.Broker, prefix, upTo, n, newest)
}

// TestElection_AMemberOfTheStoreThatLagsMakesNoTwoLead has any of those in line leave
// at once, and those who are woken read the line as it was then and not as it is.
func TestElection_AMemberOfTheStoreThatLagsMakesNoTwoLead(t *testing.T) {
	inCluster(t, func(c *cluster) {
		h := &history{prefix: "/test/elections/e/"}
		connect := c.connect
		c.connect = func() broker.Broker { return &laggard{connect(), h} }
		var all []*Election
		for i := range 6 {
			e := c.member(fmt.Sprint(i)).join("e")
			c.lead(e)
			all = append(all, e)
		}
		c.settle()
		random := rand.New(rand.NewPCG(1, 2))
		for range 40 {
			var leaving sync.WaitGroup
			for _, i := range random.Perm(len(all))[:1+random.IntN(4)] {
				leaving.Go(func() {
					if err := all[i].Resign(c.Context()); err != nil {
						c.Error(err)
					}
				})
			}
			leaving.Wait()
			c.sleep(time.Second)
			if n := c.leading(); n != 1 {
				c.Fatalf("%d lead", n)
			}
		}
		// One whose entry is deleted while it waits does not lead when its turn would come.
		line := c.line("e")
		_, err := broker.CommitOne(c.Context(), c.broker, broker.Txn{Then: []broker.Op{broker.Delete(h.prefix + line[1])}})
		c.check(err)
		c.settle()
		leader := slices.IndexFunc(all, (*Election).IsLeader)
		c.check(all[leader].Resign(c.Context()))
		c.sleep(time.Second)
		if got := c.line("e"); len(got) != len(all) || got[0] != line[2] {
			c.Errorf("in line: %q after the second of %q was deleted and the first left", got, line)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.stale == 0 {
			c.Error("no answer was an old one")
		}
		c.Logf("%d old answers", h.stale)
	})
}
