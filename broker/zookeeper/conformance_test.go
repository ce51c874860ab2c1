//go:build e2e

package zookeeper

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

const testTick = 200 * time.Millisecond

var chroots atomic.Int64

// testConfig is for servers of zktest, with a chroot of its own.
func testConfig(addresses ...string) Config {
	return Config{Servers: addresses, Chroot: "/c" + strconv.FormatInt(chroots.Add(1), 10), TickTime: testTick, MessageBytes: 4 << 20,
		DialTimeout: time.Minute, RequestTimeout: 20 * time.Second}
}

func openTest(t *testing.T, config Config) *Broker {
	t.Helper()
	b, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBroker(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	var last atomic.Pointer[Broker]
	open := func(t *testing.T) broker.Broker {
		b := openTest(t, testConfig(server.Address()))
		last.Store(b)
		return b
	}
	brokertest.Run(t, open, brokertest.Options{
		MinTTL:  time.Second,
		Compact: func(_ context.Context, r broker.Revision) error { return last.Load().compact(r) },
		Reopen:  func(t *testing.T, b broker.Broker) broker.Broker { return openTest(t, b.(*Broker).config) },
	})
}

// compact forgets history, once it is there.
func (b *Broker) compact(r broker.Revision) error {
	l, err := b.linked(b.life)
	if err == nil {
		_, err = l.feed.until(b.life, r, r)
	}
	if err == nil {
		l.feed.compact(r)
	}
	return err
}
