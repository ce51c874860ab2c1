//go:build e2e

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
	"github.com/windlass-go/windlass/internal/pause"
)

// rulesPerKill is the number of rules after which the leader is killed.
const rulesPerKill = 8

// TestBrokerOnAnEnsembleThatLosesItsLeader checks the rules on three servers, of which
// the leader is killed before every few rules and started again later. No request of a rule
// is in flight then; the tests below are about that.
func TestBrokerOnAnEnsembleThatLosesItsLeader(t *testing.T) {
	e := zktest.StartEnsemble(t, zktest.Options{Tick: testTick})
	var dead *zktest.Server
	opened := 0
	runRules(t, e.Addresses(), func(t *testing.T) {
		if opened++; opened%rulesPerKill == 0 {
			dead = killLeader(t, e, dead)
		}
	})
}

// killLeader starts the dead server again, and kills the leader.
func killLeader(t *testing.T, e *zktest.Ensemble, dead *zktest.Server) *zktest.Server {
	t.Helper()
	if dead != nil {
		if err := errors.Join(dead.Run(), dead.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	leader := awaitLeader(t, e)
	leader.Kill()
	return leader
}

func awaitLeader(t *testing.T, e *zktest.Ensemble) *zktest.Server {
	t.Helper()
	for t.Context().Err() == nil {
		if leader := e.Leader(t.Context()); leader != nil {
			return leader
		}
		pause.For(t.Context(), 20*time.Millisecond)
	}
	t.Fatal("there is no leader")
	return nil
}

// TestNothingIsLostWhenTheLeaderDies has writers that count keys up, each on condition
// that nobody else did, and a reader that follows them by listing and watching, while
// the leader is killed twice.
func TestNothingIsLostWhenTheLeaderDies(t *testing.T) {
	e := zktest.StartEnsemble(t, zktest.Options{Tick: testTick})
	config := testConfig(e.Addresses()...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const writers, rounds, each = 3, 3, 60
	writing := make(chan struct{}, writers*rounds)
	next := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			b := openTest(t, config)
			for round := range rounds {
				for i := range each {
					countUp(ctx, t, b, fmt.Sprintf("/count/%d", (w+i)%2), fmt.Sprintf("/done/%d-%d-%d", w, round, i))
				}
				writing <- struct{}{}
				<-next
			}
		})
	}
	reader := openTest(t, config)
	var follow sync.WaitGroup
	var f follower
	follow.Go(func() { f.run(ctx, t, reader) })
	var dead *zktest.Server
	for round := range rounds {
		for range writers {
			<-writing
		}
		if round < rounds-1 {
			dead = killLeader(t, e, dead)
		}
		for range writers {
			next <- struct{}{}
		}
	}
	wg.Wait()
	mustCommit(t, reader, put("/count/end", nil))
	follow.Wait()
	total := 0
	for _, key := range []string{"/count/0", "/count/1"} {
		kv, err := reader.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		total += number(kv)
	}
	if total != writers*rounds*each {
		t.Errorf("%d were counted, want %d", total, writers*rounds*each)
	}
	t.Logf("the watch began %d times; %d values were seen one by one", f.listed, f.seen)
}

// number returns the number that a key holds, 0 if it is empty.
func number(kv broker.KV) (n int) {
	_, _ = fmt.Sscan(string(kv.Value), &n)
	return n
}

// countUp adds one to a key exactly once, even if an answer is lost: the transaction also
// creates a mark.
func countUp(ctx context.Context, t *testing.T, b *Broker, key, mark string) {
	for {
		kv, err := b.Get(ctx, key)
		cond := broker.Absent(key)
		if err == nil {
			cond = broker.Modified(key, kv.Modified)
		}
		if err == nil || errors.Is(err, broker.ErrNotFound) {
			var r broker.Result
			r, err = broker.CommitOne(ctx, b, broker.Txn{If: []broker.Cond{cond, broker.Absent(mark)},
				Then: []broker.Op{broker.Put(key, fmt.Append(nil, number(kv)+1)), broker.Put(mark, nil)}, Else: []broker.Op{broker.Read(mark)}})
			if err == nil && (r.OK || r.Reads[0] != nil) {
				return
			}
		}
		if ctx.Err() != nil || err != nil && !broker.Temporary(err) {
			t.Errorf("counting: %v", err)
			return
		}
	}
}

// follower follows two counters by a listing and a watch from there, and again each time
// the watch ends.
type follower struct{ listed, seen int }

func (f *follower) run(ctx context.Context, t *testing.T, b *Broker) {
	values := map[string]int{}
	revisions := map[string]broker.Revision{}
	for {
		kvs, revision, err := broker.Collect(ctx, b, "/count/")
		if err != nil {
			if ctx.Err() != nil || !broker.Temporary(err) {
				t.Errorf("List: %v", err)
				return
			}
			continue
		}
		f.listed++
		for _, kv := range kvs {
			n := number(kv)
			if n < values[kv.Key] || kv.Modified < revisions[kv.Key] || n == values[kv.Key] && n > 0 && kv.Modified != revisions[kv.Key] {
				t.Errorf("%s is listed as %d at %d; it was %d at %d", kv.Key, n, kv.Modified, values[kv.Key], revisions[kv.Key])
			}
			values[kv.Key], revisions[kv.Key] = n, kv.Modified
			if kv.Key == "/count/end" {
				return
			}
		}
		for batch, err := range b.Watch(ctx, "/count/", revision+1) {
			if err != nil {
				if ctx.Err() != nil || !broker.Temporary(err) && !errors.Is(err, broker.ErrCompacted) {
					t.Errorf("Watch: %v", err)
					return
				}
				break
			}
			for _, event := range batch.Events {
				kv := event.KV
				n := number(kv)
				if kv.Key == "/count/end" {
					return
				}
				if n != values[kv.Key]+1 || kv.Modified <= revisions[kv.Key] {
					t.Errorf("%s became %d at %d; it was %d at %d", kv.Key, n, kv.Modified, values[kv.Key], revisions[kv.Key])
				}
				values[kv.Key], revisions[kv.Key] = n, kv.Modified
				f.seen++
			}
		}
	}
}

// TestAFrozenServerIsLeft freezes the server that a broker is connected to, whose
// connections stay open and silent.
func TestAFrozenServerIsLeft(t *testing.T) {
	e := zktest.StartEnsemble(t, zktest.Options{Tick: testTick})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := openTest(t, testConfig(e.Addresses()...))
	mustCommit(t, b, putSession("/a", mustGrant(t, b, 20*time.Second).ID))
	l, err := b.linked(ctx)
	if err != nil {
		t.Fatal(err)
	}
	frozen := e.Members[slices.Index(e.Addresses(), l.conn.Address())]
	if err := frozen.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := frozen.Thaw(); err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	for n := 0; ; n++ {
		_, err := broker.CommitOne(ctx, b, put("/b", fmt.Append(nil, n)))
		if err == nil {
			break
		}
		if ctx.Err() != nil || !broker.Temporary(err) {
			t.Fatal(err)
		}
	}
	t.Logf("writing goes on after %v", time.Since(began).Round(time.Millisecond))
	if kv, err := b.Get(ctx, "/b"); err != nil || len(kv.Value) == 0 {
		t.Errorf("%+v, %v", kv, err)
	}
}

// TestWithoutAQuorumTheErrorSaysSo kills two servers of three.
func TestWithoutAQuorumTheErrorSaysSo(t *testing.T) {
	e := zktest.StartEnsemble(t, zktest.Options{Tick: testTick})
	config := testConfig(e.Addresses()...)
	config.RequestTimeout, config.DialTimeout = 2*time.Second, 30*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := openTest(t, config)
	e.Members[0].Kill()
	e.Members[1].Kill()
	for {
		_, err := broker.CommitOne(ctx, b, put("/a", nil))
		if errors.Is(err, broker.ErrNoQuorum) {
			if broker.MaybeApplied(err) {
				t.Errorf("%v", err)
			}
			break
		}
		if !errors.Is(err, broker.ErrUnavailable) || ctx.Err() != nil {
			t.Fatalf("%v", err)
		}
	}
	config.DialTimeout = time.Second
	if _, err := Open(ctx, config); !errors.Is(err, broker.ErrNoQuorum) && !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
}
