package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/internal/zksuite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster are members that stand in elections, in a bubble of virtual time.
type cluster struct {
	*testing.T
	connect func() broker.Broker
	broker  broker.Broker // of the test itself
	stops   []func()

	mu    sync.Mutex
	lines []string // what happened
	// inside counts the functions that lead at the moment, overlaps how often
	// there was more than one.
	inside, overlaps int
}

// inCluster runs a test on a store in memory, or on a real ZooKeeper.
func inCluster(t *testing.T, test func(c *cluster)) {
	run := func(t *testing.T, connect func() broker.Broker, shutDown func() error) {
		c := &cluster{T: t, connect: connect, broker: connect()}
		defer func() {
			for _, stop := range slices.Backward(c.stops) {
				stop()
			}
			if err := errors.Join(c.broker.Close(), shutDown()); err != nil {
				t.Error(err)
			}
			if c.overlaps > 0 {
				t.Errorf("%d times a function led beside another one", c.overlaps)
			}
		}()
		test(c)
	}
	if zksuite.On() {
		zksuite.Parallel(t)
		run(t, zksuite.Connect(t), func() error { return nil })
		return
	}
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		run(t, func() broker.Broker { return store.Broker() }, store.Close)
	})
}

// node is a member with its own connection, which can fail and counts.
type node struct {
	*Member
	c      *cluster
	name   string
	faults *faulty.Broker
	counts *counting
	run    chan error
	stop   context.CancelFunc
	skew   atomic.Int64 // what its clock is ahead by
	fenced atomic.Int64
}

// member makes a member and runs it.
func (c *cluster) member(name string) *node {
	n := c.idle(name)
	n.start()
	return n
}

func (n *node) start() {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	go func() { n.run <- n.Run(ctx) }()
}

// idle makes a member that does not run.
func (c *cluster) idle(name string) *node {
	c.Helper()
	n := &node{c: c, name: name, counts: &counting{Broker: c.connect()}, run: make(chan error, 1), stop: func() {}}
	n.faults = faulty.Wrap(n.counts, nil)
	m, err := New(Config{
		Broker: n.faults, Namespace: "test", Candidate: name,
		Clock: func() (boot, day time.Duration) {
			boot, day = clock.Process()
			return boot + time.Duration(n.skew.Load()), day
		},
		Fence: func([]string) { n.fenced.Add(1) },
	})
	if err != nil {
		c.Fatal(err)
	}
	n.Member = m
	c.stops = append(c.stops, func() {
		n.faults.Heal()
		n.faults.Thaw()
		n.stop()
		n.mu.Lock()
		running := n.running
		n.mu.Unlock()
		if running {
			if err := <-n.run; err != nil && n.fenced.Load() == 0 {
				c.Errorf("%s: Run: %v", name, err)
			}
		}
		if err := n.faults.Close(); err != nil {
			c.Error(err)
		}
	})
	return n
}

// election returns an election of which everything is noted.
func (n *node) election(name string) *Election {
	n.c.Helper()
	note := func(format string, args ...any) { n.c.note("%s "+format, append([]any{n.name}, args...)...) }
	e, err := n.Election(name, Events{
		Elected:   func(Term) { note("elected") },
		Unelected: func(_ Term, cause error) { note("unelected %s", brief(cause)) },
		Leader:    func(leader string) { note("leader %s", leader) },
		Error:     func(err error) { note("error %s", brief(err)) },
	})
	if err != nil {
		n.c.Fatal(err)
	}
	return e
}

// brief is the sentinel that an error is of.
func brief(err error) string {
	for _, known := range []error{ErrResigned, ErrDeposed, ErrStopped, ErrLost, ErrNameTaken, broker.ErrUnavailable} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// join starts an election and lets it settle.
func (n *node) join(name string) *Election {
	n.c.Helper()
	e := n.election(name)
	n.c.check(e.Start())
	n.c.sleep(time.Second)
	return e
}

// lead keeps a function leading in the background, which ends with its context.
func (c *cluster) lead(e *Election) {
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		_ = e.Lead(ctx, func(ctx context.Context, term Term) error {
			c.enter()
			defer c.leave()
			<-ctx.Done()
			return nil
		})
	}()
	c.stops = append(c.stops, func() { cancel(); <-ended })
}

func (c *cluster) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside++; c.inside > 1 {
		c.overlaps++
	}
}

func (c *cluster) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
}

func (c *cluster) leading() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inside
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// noted returns what happened since the last time, and forgets it.
func (c *cluster) noted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

// happened wants exactly some lines to have been noted since the last time, in
// order.
func (c *cluster) happened(want ...string) {
	c.Helper()
	if got := c.noted(); !slices.Equal(got, want) {
		c.Errorf("happened:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// sleep lets virtual time pass and everything that is due then happen.
func (c *cluster) sleep(d time.Duration) {
	if zksuite.On() {
		zksuite.Sleep(c.T, d)
		return
	}
	time.Sleep(d)
	synctest.Wait()
}

// slack is what an exact bound in virtual time has to be widened by in real time.
func (c *cluster) slack() time.Duration {
	if zksuite.On() {
		return zksuite.SettleTime
	}
	return 0
}

// settle lets everything that is due happen.
func (c *cluster) settle() { c.sleep(0) }

func (c *cluster) check(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// line is who stands, in order, as the broker has it.
func (c *cluster) line(election string) []string {
	c.Helper()
	infos, err := List(c.Context(), c.broker, "test")
	c.check(err)
	var names []string
	for _, info := range infos {
		for _, candidate := range info.Candidates {
			if info.Name == election {
				names = append(names, candidate.Name)
			}
		}
	}
	return names
}

func (c *cluster) wantLine(election string, want ...string) {
	c.Helper()
	if got := c.line(election); !slices.Equal(got, want) {
		c.Errorf("in line: %q, want %q", got, want)
	}
}

func (c *cluster) wantLeader(e *Election, want bool) {
	c.Helper()
	if e.IsLeader() != want {
		c.Errorf("%s leads: %t, want %t", e.member.Candidate(), !want, want)
	}
}

// term returns the term in which an election leads.
func (c *cluster) term(e *Election) Term {
	c.Helper()
	t, ok := e.Term()
	if !ok {
		c.Fatalf("%s does not lead", e.member.Candidate())
	}
	return t
}

// session returns the session that a member stands on.
func (n *node) session() broker.SessionID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Member.session.ID()
}

// counting counts calls other than renewals, and which keys are watched.
type counting struct {
	broker.Broker
	calls, woken atomic.Int64
	mu           sync.Mutex
	watched      []string
}

func (b *counting) Get(ctx context.Context, key string) (broker.KV, error) {
	b.calls.Add(1)
	return b.Broker.Get(ctx, key)
}

func (b *counting) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	b.calls.Add(1)
	return b.Broker.List(ctx, prefix)
}

func (b *counting) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	b.calls.Add(1)
	return b.Broker.Commit(ctx, txns...)
}

func (b *counting) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		b.calls.Add(1)
		b.mu.Lock()
		b.watched = append(b.watched, prefix)
		b.mu.Unlock()
		for batch, err := range b.Broker.Watch(ctx, prefix, from) {
			if len(batch.Events) > 0 {
				b.woken.Add(1)
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// watches is the candidate whose entry is watched last.
func (n *node) watches() string {
	n.counts.mu.Lock()
	defer n.counts.mu.Unlock()
	if len(n.counts.watched) == 0 {
		return ""
	}
	return candidateOf(n.counts.watched[len(n.counts.watched)-1])
}
