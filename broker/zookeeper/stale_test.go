//go:build e2e

package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
	"github.com/windlass-go/windlass/internal/pause"
)

// staleRounds is the number of leaders that are replaced. Each believes for a moment that it
// still leads, and not each of them is asked in that moment.
const staleRounds = 5

// TestALeaderLeftBehindTellsNothingOfThePast freezes the leader until the others have
// another one and have accepted a write. Requests wait for it, and it processes them when it
// wakes, while it still believes that it leads.
func TestALeaderLeftBehindTellsNothingOfThePast(t *testing.T) {
	e := zktest.StartEnsemble(t, zktest.Options{Tick: testTick, Settings: []string{
		"syncLimit=3",              // the others are quick to leave it
		"maxSessionTimeout=600000", // who is connected to it is not
	}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	config := testConfig()
	told := 0
	for n := range staleRounds {
		leader := awaitLeader(t, e)
		asking, writing := config, config
		asking.Servers = []string{leader.Address()}
		asking.RequestTimeout = 10 * time.Second
		for _, member := range e.Members {
			if member != leader {
				writing.Servers = append(writing.Servers, member.Address())
			}
		}
		told += askAsItWakes(ctx, t, leader, openTest(t, asking), openTest(t, writing), n)
	}
	if t.Logf("%d of %d answers came", told, 3*staleRounds); told < staleRounds {
		t.Error("that is too few to tell")
	}
}

// askAsItWakes returns how many of three questions were answered.
func askAsItWakes(ctx context.Context, t *testing.T, leader *zktest.Server, asking, writing *Broker, n int) int {
	t.Helper()
	k := fmt.Sprintf("/k/%d", n)
	mustCommit(t, writing, put(k, []byte("old")))
	if kv, err := asking.Get(ctx, k); err != nil || string(kv.Value) != "old" {
		t.Fatalf("%+v, %v", kv, err)
	}
	if err := leader.Freeze(); err != nil {
		t.Fatal(err)
	}
	var revision broker.Revision
	for revision == 0 {
		r, err := broker.CommitOne(ctx, writing, put(k, []byte("new")))
		if err != nil && !broker.Temporary(err) {
			t.Fatal(err)
		}
		revision = r.Revision
	}
	var asked sync.WaitGroup
	var mu sync.Mutex
	told := 0
	ask := func(what string, question func() (new bool, _ error)) {
		asked.Go(func() {
			isNew, err := question()
			if err == nil && !isNew {
				t.Errorf("round %d: %s told of the past", n, what)
			}
			if err != nil && !broker.Temporary(err) {
				t.Errorf("%s: %v", what, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				told++
			}
		})
	}
	ask("a read", func() (bool, error) {
		kv, err := asking.Get(ctx, k)
		return string(kv.Value) == "new", err
	})
	ask("a listing", func() (bool, error) {
		kvs, at, err := broker.Collect(ctx, asking, "/k/")
		for _, kv := range kvs {
			if kv.Key == k && string(kv.Value) == "new" {
				return at >= revision, err
			}
		}
		return false, err
	})
	ask("a transaction", func() (bool, error) {
		r, err := broker.CommitOne(ctx, asking, broker.Txn{If: []broker.Cond{broker.Modified(k, revision)}})
		return r.OK, err
	})
	pause.For(ctx, 200*time.Millisecond) // so long that they lie before the frozen server
	if err := leader.Thaw(); err != nil {
		t.Fatal(err)
	}
	asked.Wait()
	if err := leader.Wait(); err != nil {
		t.Fatal(err)
	}
	return told
}
