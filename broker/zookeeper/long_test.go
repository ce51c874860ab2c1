//go:build e2e

package zookeeper

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
	"github.com/windlass-go/windlass/internal/pause"
)

// far is a connection to a server that is some way off: what goes there takes its time.
type far struct {
	net.Conn
	distance time.Duration
}

func (c far) Write(p []byte) (int, error) {
	pause.For(context.Background(), c.distance)
	return c.Conn.Write(p)
}

// TestLongValuesCostWatchersOnlyTime overwrites long values beside claims, and has somebody
// who is 5 ms away follow both, and list them.
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
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	config := testConfig(server.Address())
	writing := openTest(t, config)
	defer closeTest(t, writing)
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return far{conn, 5 * time.Millisecond}, err
	}
	watching := openTest(t, config)
	defer closeTest(t, watching)
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
