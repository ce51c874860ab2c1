package windlass_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/session"
)

// lineUp are the candidates of an election, in order.
func (c *cluster) lineUp(name string) (candidates []string) {
	c.t.Helper()
	infos, err := election.List(c.t.Context(), c.store, "test")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, info := range infos {
		for _, candidate := range info.Candidates {
			if info.Name == name {
				candidates = append(candidates, candidate.Name)
			}
		}
	}
	return candidates
}

// electing starts an election of a node, and lead when it leads.
func (c *cluster) electing(m *member, name string, lead func(context.Context, election.Term) error) (*election.Election, <-chan error) {
	c.t.Helper()
	e, err := m.Election(name, election.Events{})
	if err == nil {
		err = e.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	led := make(chan error, 1)
	go func() { led <- e.Lead(context.Background(), lead) }()
	return e, led
}

func untilOver(ctx context.Context, _ election.Term) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestElections_ANodeStandsOnItsOwnSession(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		first, led := c.electing(a, "reports", untilOver)
		c.eventually(5*time.Second, "a leads", first.IsLeader)
		b := c.join("b")
		second, _ := c.electing(b, "reports", untilOver)
		other, _ := c.electing(b, "bills", untilOver)
		c.eventually(5*time.Second, "b leads another", other.IsLeader)
		c.eventually(5*time.Second, "b is second", func() bool { return slices.Equal(c.lineUp("reports"), []string{"a", "b"}) })
		nodes, elections := c.nodes(), must(election.List(t.Context(), c.store, "test"))
		for _, info := range elections {
			for _, candidate := range info.Candidates {
				i := slices.IndexFunc(nodes, func(n windlass.NodeStatus) bool { return n.Name == candidate.Name })
				kv, err := c.store.Get(t.Context(), "/test/nodes/"+nodes[i].Name+"/info")
				if err != nil || kv.Session != candidate.Session {
					t.Errorf("%s stands on session %x, its node is on %x (%v)", candidate.Name, candidate.Session, kv.Session, err)
				}
			}
		}
		term, _ := first.Term()
		before := time.Now()
		if err := a.leave(); err != nil {
			t.Fatal(err)
		}
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Errorf("what led ended with %v", err)
		}
		c.eventually(time.Second, "b leads", second.IsLeader)
		if next, _ := second.Term(); next.Token <= term.Token || time.Since(before) > session.TTLDefault/2 {
			t.Errorf("%v follows %v after %v", next, term, time.Since(before))
		}
		if err := first.Start(); !errors.Is(err, election.ErrStopped) {
			t.Errorf("after the node has ended: %v", err)
		}
	})
}

func TestElections_ANodeThatLosesItsSessionStandsAgain(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var faults *faulty.Broker
		a := c.join("a", func(cfg *windlass.Config) {
			faults = faulty.Wrap(cfg.Broker, nil)
			cfg.Broker = faults
		})
		var terms atomic.Int64
		var causes []error
		first, _ := c.electing(a, "reports", func(ctx context.Context, _ election.Term) error {
			terms.Add(1)
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return nil
		})
		c.eventually(5*time.Second, "a leads", first.IsLeader)
		second, _ := c.electing(c.join("b"), "reports", untilOver)
		c.eventually(5*time.Second, "b is second", func() bool { return len(c.lineUp("reports")) == 2 })
		faults.Cut()
		c.eventually(2*session.TTLDefault, "b leads", second.IsLeader)
		if first.IsLeader() || len(causes) != 1 || !errors.Is(causes[0], session.ErrLost) {
			t.Errorf("the old leader: %v, %v", first.IsLeader(), causes)
		}
		faults.Heal()
		c.eventually(30*time.Second, "a stands again", func() bool { return slices.Equal(c.lineUp("reports"), []string{"b", "a"}) })
		if err := second.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.eventually(5*time.Second, "a leads again", first.IsLeader)
		if n := terms.Load(); n != 2 {
			t.Errorf("%d terms", n)
		}
	})
}

func TestElections_ALeaderThatDoesNotReturnIsAbandonedWithItsNode(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		release := make(chan struct{})
		e, led := c.electing(a, "reports", func(context.Context, election.Term) error { <-release; return nil })
		c.eventually(5*time.Second, "a leads", e.IsLeader)
		b, _ := c.electing(c.join("b"), "reports", untilOver)
		stopped := time.Now()
		err := a.leave()
		if !errors.Is(err, windlass.ErrAbandoned) || err.Error() != windlass.ErrAbandoned.Error()+`: ["election:reports"]` {
			t.Errorf("the node ended with %v", err)
		}
		for b.IsLeader() == false {
			c.sleep(100 * time.Millisecond)
		}
		if hard := session.Derive(session.TTLDefault).Grace; time.Since(stopped) < hard {
			t.Errorf("the next one led %v after the first was told to stop; its function still ran", time.Since(stopped))
		}
		close(release)
		<-led
	})
}

func TestElections_TheNodesOwnAndBadOnesAreRefused(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		a := c.join("a")
		for _, name := range []string{windlass.RetentionElection, "", " ", "a/b", "_x"} {
			var config *election.ConfigError
			if _, err := a.Election(name, election.Events{}); !errors.As(err, &config) || config.Field != "name" {
				t.Errorf("election %q: %v", name, err)
			}
		}
		if _, err := a.Election("e", election.Events{}); err != nil {
			t.Error(err)
		}
		if _, err := a.Election("e", election.Events{}); !errors.Is(err, election.ErrTwice) {
			t.Errorf("the same again: %v", err)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
