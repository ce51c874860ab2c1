package embedded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// TestBrokerInVirtualTime checks each rule in a bubble with its own server, which has etcd's
// real tick.
func TestBrokerInVirtualTime(t *testing.T) {
	var s *embedded.Server
	open := func(t *testing.T) broker.Broker {
		s = start(t, embedded.Config{UnsafeNoFsync: true})
		return s.Broker()
	}
	brokertest.Run(t, open, brokertest.Options{
		MinTTL:  2 * time.Second,
		Compact: func(ctx context.Context, r broker.Revision) error { return s.Compact(ctx, r) },
		Reopen:  func(*testing.T, broker.Broker) broker.Broker { return s.Broker() },
		Around:  synctest.Test,
	})
}
