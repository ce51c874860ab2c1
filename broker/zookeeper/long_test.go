//go:build e2e

package zookeeper

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// TestLongValuesCostWatchersOnlyTime overwrites long values while claims are made. A client
// with a latency of 5 ms watches and lists both.
func TestLongValuesCostWatchersOnlyTime(t *testing.T) {
	for name, load := range map[string]struct{ keys, bytes int }{
		"300 of 5,000 bytes a second": {300, 5000},
		"5 of 200 KiB a second":       {5, 200 << 10},
	} {
		t.Run(name, func(t *testing.T) { besideLongValues(t, load.keys, load.bytes) })
	}
}

func besideLongValues(t *testing.T, keys, size int) {
	const claims = 500
	_, config, writing := startTest(t)
	config.Dial = delayed(func() time.Duration { return 5 * time.Millisecond })
	watching := openTest(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := mustCommit(t, writing, put("/n/start", nil))[0].Revision

	written := make(chan struct{})
	load, stop := context.WithCancel(ctx)
	var writers sync.WaitGroup
	defer writers.Wait()
	defer stop()
	writers.Go(func() {
		for n := 0; load.Err() == nil; n++ {
			r := writing.Commit(ctx, put(fmt.Sprintf("/n/long/%d", n%keys), bytes.Repeat([]byte{byte(n)}, size)))[0]
			if r.Err != nil {
				t.Error(r.Err)
				return
			}
			pause.For(load, time.Second/time.Duration(keys))
		}
	})
	writers.Go(func() {
		defer close(written)
		for n := range claims {
			mustCommit(t, writing, put(fmt.Sprintf("/n/claims/%d", n), nil))
			pause.For(ctx, 10*time.Millisecond)
		}
	})
	listed := make(chan int)
	writers.Go(func() {
		defer close(listed)
		for n := 0; ; n++ {
			select {
			case <-written:
				listed <- n
				return
			default:
			}
			if _, _, err := broker.Collect(ctx, watching, "/n/"); err != nil {
				t.Errorf("the listing %d: %v", n, err)
				return
			}
		}
	})
	seen, long := 0, 0
	for batch, err := range watching.Watch(ctx, "/n/", start+1) {
		if err != nil {
			t.Fatalf("the watch ended after %d of %d claims: %v", seen, claims, err)
		}
		for _, e := range batch.Events {
			if e.KV.Key == fmt.Sprintf("/n/claims/%d", seen) {
				seen++
			} else if long++; len(e.KV.Value) != size {
				t.Errorf("%s has %d bytes", e.KV.Key, len(e.KV.Value))
			}
		}
		if seen == claims {
			break
		}
	}
	n := <-listed
	t.Logf("%d of %d claims and %d long values were seen, and %d listings made", seen, claims, long, n)
	if n < 2 || long < 10 {
		t.Error("that is too few")
	}
}
