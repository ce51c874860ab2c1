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
	"github.com/windlass-go/windlass/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster has members that are candidates in elections, in a bubble of virtual time.
type cluster struct {
	*testing.T
	connect func() broker.Broker
	broker  broker.Broker // of the test itself
	stops   []func()

	mu    sync.Mutex
	lines []string // the events
	// inside counts the functions that lead at present, overlaps how often there was more
	// than one.
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

// node is a member with its own connection, which can fail and counts calls.
type node struct {
	*Member
	c        *cluster
	name     string
	faults   *faulty.Broker
	counts   *counting
	run      chan error
	stop     context.CancelFunc
	skew     atomic.Int64 // by how much its clock is ahead
	fenced   atomic.Int64
	ignoring bool // it does not listen to who leads
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

// ended waits for the end of Run.
func (n *node) ended() error {
	err := <-n.run
	n.run <- nil // for the end of the test
	return err
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
	c.check(err)
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

// election returns an election whose events are noted.
func (n *node) election(name string) *Election {
	n.c.Helper()
	note := func(format string, args ...any) { n.c.note("%s "+format, append([]any{n.name}, args...)...) }
	events := Events{
		Elected:   func(Term) { note("elected") },
		Unelected: func(_ Term, cause error) { note("unelected %s", sentinelText(cause)) },
		Leader:    func(leader string) { note("leader %s", leader) },
		Error:     func(err error) { note("error %s", sentinelText(err)) },
	}
	if n.ignoring {
		events.Leader = nil
	}
	e, err := n.Election(name, events)
	n.c.check(err)
	return e
}

// sentinelText returns the text of an error's sentinel.
func sentinelText(err error) string {
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

// pair makes the members foo and bar. In election e, foo leads and bar is next.
func (c *cluster) pair() (foo, bar *node, first, second *Election) {
	c.Helper()
	foo, bar = c.member("foo"), c.member("bar")
	return foo, bar, foo.join("e"), bar.join("e")
}

// lead runs a function in the background whenever a candidate leads, until the end of the
// test. The default waits for the end of the term.
func (c *cluster) lead(e *Election, run ...func(context.Context)) {
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		_ = e.Lead(ctx, func(ctx context.Context, _ Term) error {
			c.enter(1)
			defer c.enter(-1)
			for _, f := range run {
				f(ctx)
			}
			<-ctx.Done()
			return nil
		})
	}()
	c.stops = append(c.stops, func() { cancel(); <-ended })
}

// slowly waits for the end of a term, and then most of the grace.
func slowly(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(session.Derive(TTLDefault).Grace * 9 / 10)
}

// leadStuck leads with a function that returns only after release was called, and sends the
// result of Lead to led.
func (c *cluster) leadStuck(e *Election) (release func(), led <-chan error) {
	stuck, result := make(chan struct{}), make(chan error)
	go func() {
		result <- e.Lead(context.Background(), func(context.Context, Term) error { <-stuck; return nil })
	}()
	c.sleep(time.Second)
	return func() { close(stuck) }, result
}

func (c *cluster) enter(functions int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside += functions; c.inside > 1 {
		c.overlaps++
	}
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

// noted returns the events since the last call.
func (c *cluster) noted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := c.lines
	c.lines = nil
	return lines
}

// happened checks the events since the last call of noted.
func (c *cluster) happened(want ...string) {
	c.Helper()
	if got := c.noted(); !slices.Equal(got, want) {
		c.Errorf("happened:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// sleep lets virtual time pass, and waits until everything that is due has happened.
func (c *cluster) sleep(d time.Duration) {
	if zksuite.On() {
		zksuite.Sleep(c.T, d)
		return
	}
	time.Sleep(d)
	synctest.Wait()
}

// slack is by how much to widen a bound in real time that is exact in virtual time.
func (c *cluster) slack() time.Duration {
	if zksuite.On() {
		return zksuite.SettleTime
	}
	return 0
}

// settle waits until everything that is due has happened.
func (c *cluster) settle() { c.sleep(0) }

func (c *cluster) check(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// commit changes a key from outside.
func (c *cluster) commit(op broker.Op) {
	c.Helper()
	_, err := broker.CommitOne(c.Context(), c.broker, broker.Txn{Then: []broker.Op{op}})
	c.check(err)
}

func (c *cluster) deleteEntry(election, candidate string) {
	c.Helper()
	c.commit(broker.Delete("/test/elections/" + election + "/" + candidate))
}

// observe follows who leads an election until stop is called, which returns the leaders.
func (c *cluster) observe(election string) (stop func() []string) {
	ctx, cancel := context.WithCancel(c.Context())
	seen := make(chan []string)
	go func() {
		var leaders []string
		for l, err := range Observe(ctx, c.broker, "test", election) {
			if err != nil {
				c.Error(err)
			}
			leaders = append(leaders, l.Leader)
		}
		seen <- leaders
	}()
	c.settle()
	return func() []string { cancel(); return <-seen }
}

func (c *cluster) wantErr(what string, err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Errorf("%s: %v, want %v", what, err, want)
	}
}

// queue returns the queue as the broker has it.
func (c *cluster) queue(election string) []string {
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
	if got := c.queue(election); !slices.Equal(got, want) {
		c.Errorf("in the queue: %q, want %q", got, want)
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

// session returns the latest session of a member.
func (n *node) session() *session.Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Member.session
}

// counting counts calls other than renewals, listings and batches with events, and has the
// watched keys.
type counting struct {
	broker.Broker
	calls, lists, woken atomic.Int64
	mu                  sync.Mutex
	watched             []string
}

func (b *counting) Get(ctx context.Context, key string) (broker.KV, error) {
	b.calls.Add(1)
	return b.Broker.Get(ctx, key)
}

func (b *counting) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	b.calls.Add(1)
	b.lists.Add(1)
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

// watches returns the candidate whose entry was watched last.
func (n *node) watches() string {
	n.counts.mu.Lock()
	defer n.counts.mu.Unlock()
	if len(n.counts.watched) == 0 {
		return ""
	}
	return candidateOf(n.counts.watched[len(n.counts.watched)-1])
}

// follows returns the candidate whose entry was watched last, besides its own.
func (n *node) follows() string {
	n.counts.mu.Lock()
	defer n.counts.mu.Unlock()
	for _, key := range slices.Backward(n.counts.watched) {
		if name := candidateOf(key); name != n.config.Candidate {
			return name
		}
	}
	return ""
}
