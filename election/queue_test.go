package election

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// TestElection_ManyWhoLeaveAtOnceMakeNoTwoLead has any of those in the queue leave at once.
func TestElection_ManyWhoLeaveAtOnceMakeNoTwoLead(t *testing.T) {
	inCluster(t, func(c *cluster) {
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
		queue := c.queue("e")
		c.deleteEntry("e", queue[1])
		c.settle()
		leader := slices.IndexFunc(all, (*Election).IsLeader)
		c.check(all[leader].Resign(c.Context()))
		c.sleep(time.Second)
		if got := c.queue("e"); len(got) != len(all) || got[0] != queue[2] {
			c.Errorf("in the queue: %q after the second of %q was deleted and the first left", got, queue)
		}
	})
}

// A candidate lists the queue only when the entry right before it is deleted.
func TestElection_ALongLineIsFollowedToItsFirst(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var names []string
		for i := range 200 {
			names = append(names, fmt.Sprintf("by-hand-%03d", i))
		}
		c.forge("e", names...)
		foo := c.member("foo")
		foo.ignoring = true
		e := foo.join("e")
		leave := func(watches string, listed int64, gone ...string) {
			c.Helper()
			before := foo.counts.lists.Load()
			for _, name := range gone {
				c.deleteEntry("e", name)
			}
			c.sleep(time.Second)
			if got := foo.watches(); got != watches || e.IsLeader() != (watches == "foo") {
				c.Errorf("foo watches %q, want %q; it leads: %t", got, watches, e.IsLeader())
			}
			if n := foo.counts.lists.Load() - before; n != listed {
				c.Errorf("foo listed the queue %d times, want %d", n, listed)
			}
		}
		last := len(names) - 1
		leave(names[last-1], 1, names[0], names[last])
		if e.CurrentLeader() != names[1] {
			c.Errorf("%q leads, want %q", e.CurrentLeader(), names[1])
		}
		// Most entries are deleted, but not the first ones.
		leave(names[2], 1, append(slices.Clone(names[3:last-1]), names[last-1])...)
		if e.CurrentLeader() != names[1] {
			c.Errorf("%q leads, want %q", e.CurrentLeader(), names[1])
		}
		leave(names[2], 0, names[1])
		leave("foo", 1, names[2])
	})
}

// Who is asked to resign before it leads gives up its turn: the note that it leads replaces no request.
func TestElection_ARequestBeforeItsTurnIsKept(t *testing.T) {
	inCluster(t, func(c *cluster) {
		foo, bar, quux := c.member("foo"), c.member("bar"), c.member("quux")
		first, second, third := foo.join("e"), bar.join("e"), quux.join("e")
		for _, e := range []*Election{first, second, third} {
			c.lead(e)
		}
		c.settle()
		c.commit(broker.PutSession(bar.space.Candidate("e", "bar"), note{Candidate: "bar", Resign: true}.encode(), bar.session().ID()))
		c.settle()
		c.check(first.Resign(c.Context()))
		c.sleep(time.Second)
		if got := c.queue("e"); !slices.Equal(got, []string{"quux", "foo", "bar"}) && !slices.Equal(got, []string{"quux", "bar", "foo"}) {
			c.Errorf("in the queue: %q", got)
		}
		c.wantLeader(third, true)
	})
}

// Who waits behind one that does not lead is not next, whatever is written to the entry of that one. Who
// is next joins again when its entry is deleted by hand, instead of leading without one.
func TestElection_L04_WhoIsNextKnowsIt(t *testing.T) {
	inCluster(t, func(c *cluster) {
		var all []*Election
		members := map[string]*node{}
		for _, name := range []string{"foo", "bar", "quux"} {
			members[name] = c.member(name)
			all = append(all, members[name].join("e"))
		}
		c.commit(broker.PutSession(members["bar"].space.Candidate("e", "bar"), []byte("again"), members["bar"].session().ID()))
		c.settle()
		c.check(all[1].Resign(c.Context()))
		c.sleep(time.Second)
		c.wantLine("e", "foo", "quux", "bar")
		c.wantLeader(all[2], false)
		c.deleteEntry("e", "quux")
		c.sleep(time.Second)
		c.wantLine("e", "foo", "bar", "quux")
		c.wantLeader(all[0], true)
	})
}
