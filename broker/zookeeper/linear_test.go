//go:build e2e

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

const (
	linearBrokers  = 3
	linearCallers  = 4 // of each broker
	linearRounds   = 120
	linearSessions = 4
)

// linearKeys are few, so that callers conflict; some are above others.
var linearKeys = []string{"/n/a", "/n/a/x", "/n/a/y", "/n/b", "/n/b/x", "/n/c", "/n/d/e/f"}

// linearTrees are the subtrees that are deleted.
var linearTrees = []string{"/n/a/", "/n/b/", "/n/d/", "/n/d/e/", "/n/c/"}

// called is a transaction with its result.
type called struct {
	txn    broker.Txn
	result broker.Result
}

// listing is a listing of /n/.
type listing struct {
	revision broker.Revision
	state    state
}

// linear is many callers of several brokers that make random calls.
type linear struct {
	brokers [linearBrokers]*Broker
	seed    uint64

	mu       sync.Mutex
	calls    []called
	listings []listing
	seen     map[string]broker.KV
	sessions []broker.SessionID
}

// delayed dials connections each of whose writes takes a moment more.
func delayed(delay func() time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return delayedConn{conn, delay}, err
	}
}

type delayedConn struct {
	net.Conn
	delay func() time.Duration
}

func (c delayedConn) Write(p []byte) (int, error) {
	pause.For(context.Background(), c.delay())
	return c.Conn.Write(p)
}

// TestLinear runs random transactions of several brokers on few keys, with sessions that
// end at any moment, and then replays the watched history: each transaction that was
// applied found, at its revision, what it was conditional on and what it read, and
// changed what it says and nothing else.
func TestLinear(t *testing.T) {
	_, config, watcher := startTest(t)
	_, start := mustList(t, watcher, "/n/")
	config.Dial = delayed(func() time.Duration { // so that others come between a read and what follows
		return max(0, rand.N(6*time.Millisecond)-4*time.Millisecond)
	})
	l := &linear{seed: rand.Uint64(), seen: map[string]broker.KV{}, sessions: make([]broker.SessionID, linearSessions)}
	t.Logf("seed %d", l.seed)
	for i := range l.brokers {
		l.brokers[i] = openTest(t, config)
		l.brokers[i].slots.next = i * slotsCount / linearBrokers // two that began close together could cost the history
	}
	var callers sync.WaitGroup
	for i := range linearBrokers * linearCallers {
		callers.Go(func() { l.call(t, i) })
	}
	callers.Wait()
	last := mustCommit(t, watcher, put("/n/last", nil))[0].Revision
	h := history{start: start, states: map[broker.Revision]state{}, events: map[broker.Revision][]broker.Event{}, claimed: map[broker.Revision]bool{}}
	h.follow(t, watcher, last)
	for _, c := range l.calls {
		if diff := h.check(c); diff != "" {
			t.Errorf("%s\n%+v\n%+v", diff, c.txn, c.result)
		}
	}
	for _, of := range l.listings {
		if diff := h.found(of.revision, func(s state) string {
			if maps.EqualFunc(of.state, s, sameKV) {
				return ""
			}
			return fmt.Sprintf("%v are listed at revision %d, and not %v", of.state, of.revision, s)
		}); diff != "" {
			t.Error(diff)
		}
	}
	for r, events := range h.events {
		for _, e := range events {
			if !e.Deleted && r != last && !h.claimed[r] {
				t.Errorf("nobody put %+v", e.KV)
			}
		}
	}
	kvs, _ := mustList(t, watcher, "/n/")
	if listed, watched := toState(kvs), h.at(last); !maps.EqualFunc(listed, watched, sameKV) {
		t.Errorf("listed %v, watched %v", listed, watched)
	}
}

// call makes the calls of one caller.
func (l *linear) call(t *testing.T, number int) {
	rng := rand.New(rand.NewPCG(l.seed, uint64(number)))
	b := l.brokers[number%linearBrokers]
	for range linearRounds {
		switch n := rng.IntN(20); {
		case n == 0:
			b.sweepDirectories(t.Context())
			continue
		case n == 1:
			l.list(t, b)
			continue
		case n < 4:
			l.turnOver(t, b, rng.IntN(linearSessions))
		}
		var txns []broker.Txn
		for range 1 + rng.IntN(3) {
			txn := l.txn(rng)
			if writes(txn) { // of a key of its own, so that each has a revision of its own
				txn.Then = append(txn.Then, broker.Put(fmt.Sprintf("/n/caller/%d/%d", number, len(txns)), fmt.Append(nil, rng.Uint64())))
			}
			txns = append(txns, txn)
		}
		for i, r := range b.Commit(t.Context(), txns...) {
			l.note(t, called{txns[i], r})
		}
	}
}

// turnOver replaces a session.
func (l *linear) turnOver(t *testing.T, b *Broker, i int) {
	s, err := b.Grant(t.Context(), "", 20*time.Second)
	if err != nil {
		t.Errorf("Grant: %v", err)
		return
	}
	l.mu.Lock()
	old := l.sessions[i]
	l.sessions[i] = s.ID
	l.mu.Unlock()
	if old != 0 {
		if err := b.Revoke(t.Context(), old); err != nil && !broker.Temporary(err) {
			t.Errorf("Revoke: %v", err)
		}
	}
}

func (l *linear) list(t *testing.T, b *Broker) {
	kvs, revision, err := broker.Collect(t.Context(), b, "/n/")
	if err != nil {
		t.Errorf("List: %v", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listings = append(l.listings, listing{revision, toState(kvs)})
}

func (l *linear) note(t *testing.T, c called) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	for _, kv := range c.result.Reads {
		if kv != nil {
			l.seen[kv.Key] = *kv
		}
	}
	// A session that another broker takes over breaks the connection that a
	// transaction was sent along.
	if err := c.result.Err; err != nil && !errors.Is(err, broker.ErrInvalid) && !errors.Is(err, broker.ErrSessionExpired) && !broker.Temporary(err) {
		t.Errorf("%v of %+v", err, c.txn)
	}
}

// txn returns a random transaction.
func (l *linear) txn(rng *rand.Rand) broker.Txn {
	l.mu.Lock()
	defer l.mu.Unlock()
	var txn broker.Txn
	key := func() string { return linearKeys[rng.IntN(len(linearKeys))] }
	for range rng.IntN(3) {
		c := broker.Cond{Kind: broker.CondKind(1 + rng.IntN(4)), Key: key()}
		switch c.Kind {
		case broker.CondCreated:
			c.Revision = l.seen[c.Key].Created
		case broker.CondModified:
			c.Revision = l.seen[c.Key].Modified
		}
		txn.If = append(txn.If, c)
	}
	for range 1 + rng.IntN(4) {
		op := broker.Read(key())
		value := fmt.Append(nil, rng.Uint32())
		switch n := rng.IntN(12); {
		case n < 4:
			op = broker.Put(key(), value)
		case n < 6:
			op = broker.PutSession(key(), value, l.sessions[rng.IntN(linearSessions)])
		case n < 8:
			op = broker.Delete(key())
		case n < 9:
			op = broker.DeleteTree(linearTrees[rng.IntN(len(linearTrees))])
		}
		if !slices.ContainsFunc(txn.Then, func(w broker.Op) bool {
			return w.Kind != broker.OpRead && op.Kind != broker.OpRead && (w.Overlaps(op) || op.Kind == broker.OpPut && op.Key == w.Key)
		}) {
			txn.Then = append(txn.Then, op)
		}
	}
	for range rng.IntN(3) {
		txn.Then, txn.Else = append(txn.Then, broker.Read(key())), append(txn.Else, broker.Read(key()))
	}
	return txn
}

// state is all keys at a revision.
type state map[string]broker.KV

func toState(kvs []broker.KV) state {
	s := state{}
	for _, kv := range kvs {
		s[kv.Key] = kv
	}
	return s
}

func sameKV(a, b broker.KV) bool {
	return a.Key == b.Key && string(a.Value) == string(b.Value) && a.Created == b.Created && a.Modified == b.Modified && a.Session == b.Session
}

// history is the watched changes.
type history struct {
	start broker.Revision
	// revisions are those at which something changed, ascending.
	revisions []broker.Revision
	// states are those after the changes of a revision, events those changes.
	states map[broker.Revision]state
	events map[broker.Revision][]broker.Event
	// claimed are the revisions whose transaction is known.
	claimed map[broker.Revision]bool
}

// follow reads the history up to a revision, and replays it.
func (h *history) follow(t *testing.T, b *Broker, last broker.Revision) {
	now := state{}
	for batch, err := range b.Watch(t.Context(), "/n/", h.start+1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			r := e.KV.Modified
			old, there := now[e.KV.Key]
			if e.Deleted && !there {
				continue // see the package's documentation
			}
			if n := len(h.revisions); n == 0 || h.revisions[n-1] < r {
				h.revisions = append(h.revisions, r)
			} else if h.revisions[n-1] > r {
				t.Fatalf("revision %d comes after %d", r, h.revisions[n-1])
			}
			h.events[r] = append(h.events[r], e)
			if !e.Deleted && (there && old.Created != e.KV.Created || !there && e.KV.Created != r) {
				t.Errorf("%+v follows %+v", e.KV, old)
			}
			if now[e.KV.Key] = e.KV; e.Deleted {
				delete(now, e.KV.Key)
			}
			h.states[r] = maps.Clone(now)
		}
		if batch.Revision >= last {
			return
		}
	}
}

// at returns the state after the changes up to a revision.
func (h *history) at(r broker.Revision) state {
	i, found := slices.BinarySearch(h.revisions, r)
	if found {
		return h.states[r]
	}
	if i == 0 {
		return state{}
	}
	return h.states[h.revisions[i-1]]
}

// check compares a transaction with the history.
func (h *history) check(c called) string {
	switch {
	case broker.MaybeApplied(c.result.Err):
		for r, events := range h.events {
			if c.puts(events) {
				return h.applied(called{c.txn, broker.Result{OK: true, Revision: r, Reads: c.reads(h.at(r - 1))}})
			}
		}
		return ""
	case c.result.Err != nil:
		return ""
	case c.result.OK && writes(c.txn):
		return h.applied(c)
	}
	return h.found(c.result.Revision, c.finds)
}

// found compares the state at a revision. A deletion by the server may have been earlier
// than the revision at which it was watched, but not earlier than the change watched before
// it.
func (h *history) found(r broker.Revision, compare func(state) string) string {
	diff := compare(h.at(r))
	i, found := slices.BinarySearch(h.revisions, r)
	if found {
		i++
	}
	for ; diff != "" && i < len(h.revisions) && h.byServer(h.revisions[i]); i++ {
		diff = compare(h.states[h.revisions[i]])
	}
	return diff
}

// byServer reports whether a revision has only deletions.
func (h *history) byServer(r broker.Revision) bool {
	return !slices.ContainsFunc(h.events[r], func(e broker.Event) bool { return !e.Deleted })
}

// applied checks a transaction that changed something.
func (h *history) applied(c called) string {
	before := h.at(c.result.Revision - 1)
	if diff := c.finds(before); diff != "" {
		return diff
	}
	got := map[string]string{}
	for _, e := range h.events[c.result.Revision] {
		got[e.KV.Key] = fmt.Sprintf("%t %q %x", e.Deleted, e.KV.Value, e.KV.Session)
	}
	if want := c.changes(before); !maps.Equal(got, want) {
		return fmt.Sprintf("it changed %v, and not %v", got, want)
	}
	h.claimed[c.result.Revision] = true
	return ""
}

// changes returns what a transaction changes in a state.
func (c called) changes(before state) map[string]string {
	want := map[string]string{}
	remove := func(key string) {
		if _, there := before[key]; there {
			want[key] = fmt.Sprintf("%t %q %x", true, "", 0)
		}
	}
	for _, op := range c.txn.Then {
		switch op.Kind {
		case broker.OpPut:
			want[op.Key] = fmt.Sprintf("%t %q %x", false, op.Value, op.Session)
		case broker.OpDelete:
			remove(op.Key)
		case broker.OpDeleteTree:
			for key := range before {
				if strings.HasPrefix(key, op.Key) {
					remove(key)
				}
			}
		}
	}
	return want
}

// puts reports whether a value of the transaction is among events.
func (c called) puts(events []broker.Event) bool {
	return slices.ContainsFunc(c.txn.Then, func(op broker.Op) bool {
		return op.Kind == broker.OpPut && slices.ContainsFunc(events, func(e broker.Event) bool {
			return e.KV.Key == op.Key && string(e.KV.Value) == string(op.Value)
		})
	})
}

// reads returns what a transaction reads in a state.
func (c called) reads(s state) (all []*broker.KV) {
	branch := c.txn.Then
	if !c.result.OK && c.result.Err == nil {
		branch = c.txn.Else
	}
	for _, op := range branch {
		if op.Kind == broker.OpRead {
			kv, there := s[op.Key]
			all = append(all, map[bool]*broker.KV{true: &kv}[there])
		}
	}
	return all
}

// finds compares the conditions and reads of a transaction with a state.
func (c called) finds(s state) string {
	ok := true
	for _, cond := range c.txn.If {
		kv, there := s[cond.Key]
		switch cond.Kind {
		case broker.CondExists:
			ok = ok && there
		case broker.CondAbsent:
			ok = ok && !there
		case broker.CondCreated:
			ok = ok && there && kv.Created == cond.Revision
		case broker.CondModified:
			ok = ok && there && kv.Modified == cond.Revision
		}
	}
	if ok != c.result.OK {
		return fmt.Sprintf("OK is %t in %v", c.result.OK, s)
	}
	for i, want := range c.reads(s) {
		if got := c.result.Reads[i]; (got == nil) != (want == nil) || got != nil && !sameKV(*got, *want) {
			return fmt.Sprintf("read %d is %+v, and not %+v", i, got, want)
		}
	}
	return ""
}
