//go:build e2e

package drivertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// TestAWatchMissesNothingWhenMembersDie writes one key after the other while every member, the
// leader first, is killed and started again. It reopens the watch, each time it ends, from the
// revision up to which it was complete.
func TestAWatchMissesNothingWhenMembersDie(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	writer, watcher := c.open(t), c.open(t)
	_, start, err := broker.Collect(ctx, watcher, "/seq/")
	if err != nil {
		t.Fatal(err)
	}
	const last = "/seq/last"
	seen := make(map[string]int)
	opened := 0
	var follow sync.WaitGroup
	follow.Go(func() { opened = followUntil(ctx, t, watcher, start+1, last, seen) })

	written := writeSequence(ctx, t, writer, 0, 50)
	leader, _ := c.leader(ctx)
	for i := range c.members {
		victim := (leader + i) % len(c.members)
		c.kill(victim)
		killed := time.Now()
		written = append(written, writeSequence(ctx, t, writer, len(written), 1)...)
		t.Logf("killed member %d (%d led): writes go on after %v", victim, leader, time.Since(killed).Round(time.Millisecond))
		written = append(written, writeSequence(ctx, t, writer, len(written), 50)...)
		c.start(victim)
		c.leader(ctx) // waits until it is back
	}
	written = append(written, writeKey(ctx, t, writer, last))
	follow.Wait()

	t.Logf("the watch was opened %d times", opened)
	if opened < 2 {
		t.Error("the watch never broke, although its member was killed")
	}
	for _, key := range written {
		if seen[key] != 1 {
			t.Errorf("%s was seen %d times", key, seen[key])
		}
	}
	if len(seen) != len(written) {
		t.Errorf("%d keys were seen and %d written", len(seen), len(written))
	}
}

// followUntil counts the keys put, in order of their revisions, until one of
// them, and returns how often it had to open the watch.
func followUntil(ctx context.Context, t *testing.T, b broker.Broker, from broker.Revision, last string, seen map[string]int) (opened int) {
	for seen[last] == 0 {
		if opened++; ctx.Err() != nil {
			t.Error("the watch did not get to the end")
			return opened
		}
		for batch, err := range b.Watch(ctx, "/seq/", from) {
			if err != nil {
				t.Logf("watch: %v", err)
				break
			}
			for _, event := range batch.Events {
				if event.KV.Modified < from {
					t.Errorf("%s at revision %d, after %d was complete", event.KV.Key, event.KV.Modified, from-1)
				}
				seen[event.KV.Key]++
			}
			from = batch.Revision + 1
			if seen[last] > 0 {
				break
			}
		}
	}
	return opened
}

func writeSequence(ctx context.Context, t *testing.T, b broker.Broker, from, n int) []string {
	t.Helper()
	var written []string
	for i := from; i < from+n; i++ {
		written = append(written, writeKey(ctx, t, b, fmt.Sprintf("/seq/%06d", i)))
	}
	return written
}

// writeKey creates a key, however long it takes. If the key exists, an earlier attempt with an
// unknown outcome was applied.
func writeKey(ctx context.Context, t *testing.T, b broker.Broker, key string) string {
	t.Helper()
	for {
		_, err := broker.CommitOne(ctx, b, broker.Txn{
			If: []broker.Cond{broker.Absent(key)}, Then: []broker.Op{broker.Put(key, nil)},
		})
		if err == nil {
			return key
		}
		if !broker.Temporary(err) || ctx.Err() != nil {
			t.Fatalf("write: %v", err)
		}
		t.Logf("write: %v", err)
	}
}

func TestWithoutAQuorumTheErrorSaysSo(t *testing.T) {
	c := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	b := c.open(t)
	leader, follower := c.leader(ctx)
	c.kill(leader)
	c.kill(follower)
	// The survivor notices after an election timeout; earlier requests may time out.
	for {
		_, err := broker.CommitOne(ctx, b, broker.Txn{Then: []broker.Op{broker.Put("/a", nil)}})
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
	for _, err := range b.Watch(ctx, "/a/", 1) {
		if !errors.Is(err, broker.ErrNoQuorum) && !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("watch: %v", err)
		}
		break
	}
}
