// Package zksuite runs the suites of the engine, of trees and of elections on a real
// ZooKeeper server. They are written for virtual time, which a real server cannot have, and
// take real time here.
//
//	WINDLASS_TEST_ZOOKEEPER=1 go test -parallel 24 ./cmd/windlass/internal/integration ./tree ./election
//
// A test that would sleep for longer than sleepMax at once, or testMax in total, is
// skipped.
package zksuite

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

const (
	// SettleTime is how long a suite waits instead of waiting until all goroutines of the
	// bubble are idle.
	SettleTime = 100 * time.Millisecond

	sleepMax = time.Minute
	testMax  = 3 * time.Minute
)

// On reports whether the suites run on ZooKeeper.
func On() bool { return os.Getenv("WINDLASS_TEST_ZOOKEEPER") != "" }

var chroots atomic.Int64

// Connect returns a function that opens connections to one server, below a new chroot. They
// are closed when the test ends.
func Connect(t *testing.T) func() broker.Broker {
	t.Helper()
	server := zktest.Shared(t)
	chroot := fmt.Sprintf("/suite%d", chroots.Add(1))
	return func() broker.Broker {
		b, err := zookeeper.Open(t.Context(), zookeeper.Config{
			Servers: []string{server.Address()}, Chroot: chroot, TickTime: time.Second, MessageBytes: zktest.MessageBytesDefault, DialTimeout: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		return b
	}
}

// Sleep sleeps, or skips the test if that takes too long in real time.
func Sleep(t *testing.T, d time.Duration) {
	t.Helper()
	if t.Skipped() { // what remains is to tidy up
		time.Sleep(d + SettleTime)
		return
	}
	before, _ := slept.LoadOrStore(t.Name(), new(atomic.Int64))
	if total := time.Duration(before.(*atomic.Int64).Add(int64(d))); d > sleepMax || total > testMax {
		t.Skipf("in real time this takes %v, and %v in total", d, total)
	}
	time.Sleep(d + SettleTime)
}

// slept are the total sleeps of tests, and parallel the tests that are parallel, by name.
var slept, parallel sync.Map

// Parallel runs a test in parallel with others, since they mostly wait.
func Parallel(t *testing.T) {
	t.Helper()
	if _, already := parallel.LoadOrStore(t.Name(), true); !already {
		t.Parallel()
	}
}
