// Package zksuite lets the suites of the engine, of trees and of elections run on a
// real ZooKeeper server, unchanged but for the time: they are written for bubbles of
// virtual time, which no real server can be in, and take real time here.
//
//	WINDLASS_TEST_ZOOKEEPER=1 go test -parallel 24 ./cmd/windlass/internal/integration ./tree ./election
//
// A test that would sleep for longer than SleepMax at once, or TestMax altogether, is
// skipped and says so.
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

// Variable is the environment variable that turns it on, with any value.
const Variable = "WINDLASS_TEST_ZOOKEEPER"

// SleepMax is the longest sleep of a test in real time.
const SleepMax = time.Minute

// TestMax is how long a test may sleep altogether.
const TestMax = 3 * time.Minute

// SettleTime is how long a suite waits where in virtual time it waits until nothing is
// under way.
const SettleTime = 100 * time.Millisecond

// On tells whether the suites are to run on ZooKeeper.
func On() bool { return os.Getenv(Variable) != "" }

var chroots atomic.Int64

// Connect returns a function that opens connections to one server, below a chroot of
// the test's own. They are closed when the test ends.
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
	if total := time.Duration(before.(*atomic.Int64).Add(int64(d))); d > SleepMax || total > TestMax {
		t.Skipf("in real time this takes %v, and %v with what was before", d, total)
	}
	time.Sleep(d + SettleTime)
}

// slept are the times for which tests have slept, and parallel those that have said that
// they are, by their names.
var slept, parallel sync.Map

// Parallel lets a test run beside others, since they mostly wait.
func Parallel(t *testing.T) {
	t.Helper()
	if _, already := parallel.LoadOrStore(t.Name(), true); !already {
		t.Parallel()
	}
}
