//go:build e2e

package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

func TestBroker(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	runRules(t, []string{server.Address()}, func(*testing.T) {})
}

// runRules runs the conformance suite, and calls before at the beginning of each rule.
func runRules(t *testing.T, addresses []string, before func(*testing.T)) {
	var last *Broker
	open := func(t *testing.T) broker.Broker {
		before(t)
		last = openTest(t, testConfig(addresses...))
		return last
	}
	brokertest.Run(t, open, brokertest.Options{
		MinTTL:  time.Second,
		Compact: func(_ context.Context, r broker.Revision) error { return last.compact(r) },
		Reopen:  func(t *testing.T, b broker.Broker) broker.Broker { return openTest(t, b.(*Broker).config) },
	})
}

// compact forgets the history up to a revision, once it is complete up to there.
func (b *Broker) compact(r broker.Revision) error {
	l, err := b.linked(b.life)
	if err != nil {
		return err
	}
	f := l.feed
	if _, err := f.until(b.life, r, r); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.entries) > 0 && f.entries[0].revision <= r {
		f.dropOldest()
	}
	f.floor = max(f.floor, r)
	f.announce()
	return nil
}
