package integration_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

// candidates returns the candidates of an election, in order.
func (c *cluster) candidates(name string) (candidates []string) {
	c.t.Helper()
	infos, err := election.List(c.t.Context(), c.store, "test")
	c.must(err)
	for _, info := range infos {
		for _, candidate := range info.Candidates {
			if info.Name == name {
				candidates = append(candidates, candidate.Name)
			}
		}
	}
	return candidates
}

// electing starts an election on a node, with lead as its leader's function.
func (c *cluster) electing(m *windlasstest.Node, name string, lead func(context.Context, election.Term) error) (*election.Election, <-chan error) {
	c.t.Helper()
	e, err := m.Election(name, election.Events{})
	c.must(err)
	c.must(e.Start())
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
		c.WaitUntil(5*time.Second, "a leads", first.IsLeader)
		b := c.join("b")
		second, _ := c.electing(b, "reports", untilOver)
		other, _ := c.electing(b, "bills", untilOver)
		c.WaitUntil(5*time.Second, "b leads another", other.IsLeader)
		c.WaitUntil(5*time.Second, "b is second", func() bool { return slices.Equal(c.candidates("reports"), []string{"a", "b"}) })
		nodes := c.nodes()
		elections, err := election.List(t.Context(), c.store, "test")
		c.must(err)
		for _, info := range elections {
			for _, candidate := range info.Candidates {
				i := slices.IndexFunc(nodes, func(n windlass.NodeStatus) bool { return n.Name == candidate.Name })
				if kv := c.get("/test/nodes/" + nodes[i].Name + "/info"); kv.Session != candidate.Session {
					t.Errorf("%s stands on session %x, its node is on %x", candidate.Name, candidate.Session, kv.Session)
				}
			}
		}
		term, _ := first.Term()
		before := time.Now()
		c.must(a.Stop())
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Errorf("what led ended with %v", err)
		}
		c.WaitUntil(time.Second, "b leads", second.IsLeader)
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
		a := c.join("a")
		var terms atomic.Int64
		var causes []error
		first, _ := c.electing(a, "reports", func(ctx context.Context, _ election.Term) error {
			terms.Add(1)
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return nil
		})
		c.WaitUntil(5*time.Second, "a leads", first.IsLeader)
		second, _ := c.electing(c.join("b"), "reports", untilOver)
		c.WaitUntil(5*time.Second, "b is second", func() bool { return len(c.candidates("reports")) == 2 })
		a.Partition()
		c.WaitUntil(2*session.TTLDefault, "b leads", second.IsLeader)
		if first.IsLeader() || len(causes) != 1 || !errors.Is(causes[0], session.ErrLost) {
			t.Errorf("the old leader: %v, %v", first.IsLeader(), causes)
		}
		a.Heal()
		c.WaitUntil(30*time.Second, "a stands again", func() bool { return slices.Equal(c.candidates("reports"), []string{"b", "a"}) })
		c.must(second.Resign(t.Context()))
		c.WaitUntil(5*time.Second, "a leads again", first.IsLeader)
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
		c.WaitUntil(5*time.Second, "a leads", e.IsLeader)
		b, _ := c.electing(c.join("b"), "reports", untilOver)
		stopped := time.Now()
		err := a.Stop()
		if !errors.Is(err, windlass.ErrAbandoned) || err.Error() != windlass.ErrAbandoned.Error()+`: ["election:reports"]` {
			t.Errorf("the node ended with %v", err)
		}
		for !b.IsLeader() {
			c.Advance(100 * time.Millisecond)
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
			var wrong *windlass.BadInputError
			if _, err := a.Election(name, election.Events{}); !errors.As(err, &wrong) || wrong.Field != "election name" {
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

// The function of the previous incarnation has not returned when the next one joins.
func TestElections_AFunctionThatOutlivesItsSessionIsNotDoubled(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var fenced [][]string
		a := c.join("a", func(cfg *windlass.Config) {
			cfg.Fence = func(overdue func() []string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				fenced = append(fenced, overdue())
			}
		})
		release := make(chan struct{})
		var inside, terms atomic.Int64
		e, led := c.electing(a, "reports", func(ctx context.Context, _ election.Term) error {
			terms.Add(1)
			if inside.Add(1) > 1 {
				t.Error("two at once")
			}
			defer inside.Add(-1)
			<-release
			<-ctx.Done()
			return context.Cause(ctx)
		})
		other, _ := c.electing(a, "bills", untilOver)
		c.WaitUntil(5*time.Second, "a leads", func() bool { return e.IsLeader() && other.IsLeader() })
		a.Partition()
		c.Advance(2 * session.TTLDefault)
		if e.IsLeader() || !slices.EqualFunc(fenced, [][]string{{"election:reports"}}, slices.Equal) {
			t.Errorf("fenced: %q", fenced)
		}
		a.Heal()
		c.WaitUntil(30*time.Second, "the other again", other.IsLeader)
		c.submit(1, windlass.Spec{})
		c.WaitUntil(30*time.Second, "a task runs", func() bool { return c.runningOn("a") == 1 })
		c.Advance(30 * time.Second)
		if got := c.candidates("reports"); len(got) != 0 {
			t.Errorf("in line: %q", got)
		}
		close(release)
		c.WaitUntil(5*time.Second, "leads again", e.IsLeader)
		if terms.Load() != 2 {
			t.Errorf("%d terms", terms.Load())
		}
		c.must(a.Stop())
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Error(err)
		}
	})
}

// The election is started before Run, and Run fails.
func TestElections_ANodeThatNeverJoinsStandsNowhere(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a")
		c.Advance(time.Second)
		node := c.newNode("a", func(cfg *windlass.Config) { cfg.Retention = windlass.Retention{Count: 3} })
		e, err := node.Election("reports", election.Events{})
		c.must(err)
		c.must(e.Start())
		led := make(chan error)
		go func() { led <- e.Lead(context.Background(), untilOver) }()
		c.Advance(time.Minute)
		if got := c.candidates("reports"); len(got) != 0 {
			t.Errorf("in line: %q", got)
		}
		if err := node.Run(t.Context()); !errors.Is(err, windlass.ErrNameTaken) {
			t.Error(err)
		}
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Error(err)
		}
		if err := e.Start(); !errors.Is(err, election.ErrStopped) {
			t.Error(err)
		}
		c.must(e.Stop(t.Context()))
	})
}

// The name is valid in a node's keys and invalid for a candidate.
func TestNewNode_ANameThatCannotStandIsBadInput(t *testing.T) {
	store := memory.New()
	defer store.Close()
	_, err := windlass.NewNode(windlass.Config{
		Broker: store.Broker(), Namespace: "test", Name: " ",
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(nil)},
	})
	var input *windlass.BadInputError
	if !errors.As(err, &input) {
		t.Errorf("%T: %v", err, err)
	}
}

// lagging is a context that runs its AfterFuncs a moment after it has ended, as any context
// may.
type lagging struct {
	context.Context
	done chan struct{}
}

// Done implements context.Context.
func (c *lagging) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *lagging) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// AfterFunc is called by package context.
func (c *lagging) AfterFunc(f func()) (stop func() bool) {
	var once sync.Once
	stopped := make(chan struct{})
	go func() {
		select {
		case <-c.done:
			time.Sleep(time.Millisecond)
			once.Do(f)
		case <-stopped:
		}
	}()
	return func() (first bool) {
		once.Do(func() {
			first = true
			close(stopped)
		})
		return first
	}
}

// The node's loop ends before the function that leaves the elections has run.
func TestElections_ANodeThatIsToldToStopLeavesTheLine(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		node := c.newNode("a", func(cfg *windlass.Config) { cfg.Clock = clock.Process })
		e, err := node.Election("reports", election.Events{})
		c.must(err)
		c.must(e.Start())
		ctx := &lagging{Context: context.Background(), done: make(chan struct{})}
		ran, led := make(chan error, 1), make(chan error, 1)
		go func() { ran <- node.Run(ctx) }()
		go func() { led <- e.Lead(context.Background(), untilOver) }()
		c.WaitUntil(5*time.Second, "it leads", e.IsLeader)
		close(ctx.done)
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Errorf("Lead: %v", err)
		}
		c.Advance(time.Second)
		if got := c.candidates("reports"); len(got) != 0 {
			t.Errorf("in line: %q", got)
		}
	})
}
