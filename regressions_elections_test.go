package windlass_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/session"
)

// TestElections_AFunctionThatOutlivesItsSessionIsNotDoubled is about the incarnation
// after the one in which something led that has still not returned.
func TestElections_AFunctionThatOutlivesItsSessionIsNotDoubled(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		var faults *faulty.Broker
		var mu sync.Mutex
		var fenced [][]string
		a := c.join("a", func(cfg *windlass.Config) {
			faults = faulty.Wrap(cfg.Broker, nil)
			cfg.Broker = faults
			cfg.Fence = func(overdue func() []string) {
				mu.Lock()
				defer mu.Unlock()
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
		c.eventually(5*time.Second, "a leads", func() bool { return e.IsLeader() && other.IsLeader() })
		faults.Cut()
		c.sleep(2 * session.TTLDefault)
		if e.IsLeader() || !slices.EqualFunc(fenced, [][]string{{"election:reports"}}, slices.Equal) {
			t.Errorf("fenced: %q", fenced)
		}
		faults.Heal()
		c.eventually(30*time.Second, "the other again", other.IsLeader)
		c.submit(1, windlass.Spec{})
		c.eventually(30*time.Second, "a task runs", func() bool { return c.runningOn("a") == 1 })
		c.sleep(30 * time.Second)
		if got := c.lineUp("reports"); len(got) != 0 {
			t.Errorf("in line: %q", got)
		}
		close(release)
		c.eventually(5*time.Second, "leads again", e.IsLeader)
		if terms.Load() != 2 {
			t.Errorf("%d terms", terms.Load())
		}
		if err := a.leave(); err != nil {
			t.Error(err)
		}
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Error(err)
		}
	})
}

// TestElections_ANodeThatNeverJoinsStandsNowhere is about elections that were started
// before a Run that fails.
func TestElections_ANodeThatNeverJoinsStandsNowhere(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a")
		c.sleep(time.Second)
		node, err := windlass.NewNode(windlass.Config{Broker: c.connect(), Namespace: "test", Name: "a",
			Handlers:  map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(c.untilStopped)},
			Retention: windlass.Retention{Count: 3}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := node.Election("reports", election.Events{})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
		led := make(chan error)
		go func() { led <- e.Lead(context.Background(), untilOver) }()
		c.sleep(time.Minute)
		if got := c.lineUp("reports"); len(got) != 0 {
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
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestNewNode_ANameThatCannotStandIsBadInput is about a name that a node's keys could
// have and a candidate's could not.
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

// lagging is a context whose functions run a moment after it has ended, as those of
// any context may.
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

// AfterFunc is what package context uses where a context has it.
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

// TestElections_ANodeThatIsToldToStopLeavesTheLine is about a loop that is told, and has
// ended, before the function that leaves the elections.
func TestElections_ANodeThatIsToldToStopLeavesTheLine(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		store := c.connect()
		defer store.Close()
		node, err := windlass.NewNode(windlass.Config{Broker: store, Namespace: "test", Name: "a", Clock: clock.Process,
			Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(c.untilStopped)}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := node.Election("reports", election.Events{})
		if err == nil {
			err = e.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx := &lagging{Context: context.Background(), done: make(chan struct{})}
		ran, led := make(chan error, 1), make(chan error, 1)
		go func() { ran <- node.Run(ctx) }()
		go func() { led <- e.Lead(context.Background(), untilOver) }()
		c.eventually(5*time.Second, "it leads", e.IsLeader)
		close(ctx.done)
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := <-led; !errors.Is(err, election.ErrStopped) {
			t.Errorf("Lead: %v", err)
		}
		c.sleep(time.Second)
		if got := c.lineUp("reports"); len(got) != 0 {
			t.Errorf("in line: %q", got)
		}
	})
}
