//go:build e2e

package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Other connections overwrite keys as fast as they can. The watch has every value, with the
// revision of its transaction.
func TestWatch_HasEveryValueThatOthersWrote(t *testing.T) {
	const writers, writes = 3, 300
	_, config, watcher := startTest(t)
	var brokers [writers]*Broker
	for i := range brokers {
		brokers[i] = openTest(t, config)
	}
	_, start := mustList(t, watcher, "/w/")
	var wg sync.WaitGroup
	defer wg.Wait()
	var revisions [writers][writes]broker.Revision
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				value := fmt.Append(nil, i)
				if i%50 == 0 {
					value = bytes.Repeat([]byte{byte(i)}, 100)
				}
				ops := []broker.Op{broker.Put(fmt.Sprintf("/w/%d", w), value), broker.Put("/w/all", []byte{byte(w)})}
				if i%7 == 0 {
					ops[1] = broker.Delete("/w/all")
				}
				r, err := broker.CommitOne(t.Context(), brokers[w], broker.Txn{Then: ops})
				if err != nil {
					t.Errorf("Commit: %v", err)
					return
				}
				revisions[w][i] = r.Revision
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var next [writers]int
	var seen [writers][writes]broker.Revision
	for batch, err := range watcher.Watch(ctx, "/w/", start+1) {
		if err != nil {
			t.Fatalf("Watch: %v after %v", err, next)
		}
		for _, e := range batch.Events {
			var w int
			if n, _ := fmt.Sscanf(e.KV.Key, "/w/%d", &w); n == 0 {
				continue
			}
			i := next[w]
			if want := fmt.Append(nil, i); i%50 != 0 && !bytes.Equal(e.KV.Value, want) {
				t.Fatalf("writer %d: value %q where %q was to come", w, e.KV.Value, want)
			}
			seen[w][i] = e.KV.Modified
			next[w]++
		}
		if next == [writers]int{writes, writes, writes} {
			break
		}
	}
	wg.Wait()
	if seen != revisions {
		t.Error("events have other revisions than the results of their transactions")
	}
}

// A caller that reads a key can watch it from there on, although the key was written before
// the connection was opened.
func TestWatch_OfAKeyJustReadNeedsNoHistory(t *testing.T) {
	_, config, other := startTest(t)
	there := mustCommit(t, other, put("/a/there", nil))[0].Revision
	absent := mustCommit(t, other, put("/a/else/where", nil))[0].Revision
	late := openTest(t, config)
	var wg sync.WaitGroup
	defer wg.Wait()
	for key, from := range map[string]broker.Revision{"/a/there": there + 1, "/a/else/absent": absent + 1, "/a/new/absent/below": absent + 1} {
		wg.Go(func() {
			for batch, err := range late.Watch(t.Context(), key, from) {
				if err != nil {
					t.Errorf("Watch of %s from %d: %v", key, from, err)
				}
				if len(batch.Events) > 0 {
					return
				}
				if r := other.Commit(t.Context(), put(key, []byte("new")))[0]; r.Err != nil { // it has begun
					t.Errorf("Commit: %v", r.Err)
				}
			}
		})
	}
}

func TestWatch_OfAKeyThatChangedBeforeTheHistoryBeginsIsCompacted(t *testing.T) {
	_, config, other := startTest(t)
	first := mustCommit(t, other, put("/a", nil))[0].Revision
	mustCommit(t, other, put("/a", []byte("2")))
	mustCommit(t, other, put("/b", nil), remove("/b"))
	late := openTest(t, config)
	for _, key := range []string{"/a", "/b", "/a/", "/c/"} {
		for _, err := range late.Watch(t.Context(), key, first+1) {
			if !errors.Is(err, broker.ErrCompacted) {
				t.Errorf("Watch of %s: %v, want ErrCompacted", key, err)
			}
		}
	}
}

// A writer goes round the ring before anybody can read it. A watch never misses a change
// without an error.
func TestWatch_OfARecordThatWasOverwrittenIsCompacted(t *testing.T) {
	_, config, b := startTest(t)
	other := openTest(t, config)
	b.slots.count = 2
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const keys, rounds = 200, 5
	var writer sync.WaitGroup
	defer writer.Wait()
	_, from := mustList(t, other, "/w/")
	writer.Go(func() {
		for round := range rounds {
			var txns []broker.Txn
			for i := range keys {
				txns = append(txns, put(fmt.Sprintf("/w/%d", i), []byte{byte(round)}))
			}
			mustCommit(t, b, txns...)
		}
		mustCommit(t, b, put("/w/end", nil))
	})
	values, compacted := map[string]byte{}, 0
	take := func(kv broker.KV, listed bool) (end bool) {
		if kv.Key == "/w/end" {
			return true
		}
		old, there := values[kv.Key]
		if want := old + 1; !listed && (there && kv.Value[0] != want || !there && kv.Value[0] != 0) {
			t.Errorf("%s became %d after %d (%t)", kv.Key, kv.Value[0], old, there)
		}
		values[kv.Key] = kv.Value[0]
		return false
	}
	for end := false; !end; {
		for batch, err := range other.Watch(ctx, "/w/", from+1) {
			if errors.Is(err, broker.ErrCompacted) {
				compacted++
				var kvs []broker.KV
				kvs, from = mustList(t, other, "/w/")
				for _, kv := range kvs {
					end = take(kv, true) || end
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range batch.Events {
				end = take(e.KV, false) || end
			}
			if from = batch.Revision; end {
				break
			}
		}
	}
	if compacted == 0 {
		t.Error("no record was lost, so that this shows nothing")
	}
	for i := range keys {
		if values[fmt.Sprintf("/w/%d", i)] != rounds-1 {
			t.Errorf("key %d was last seen as %d", i, values[fmt.Sprintf("/w/%d", i)])
		}
	}
}
