//go:build e2e

package drivertest_test

import (
	"context"
	"testing"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/etcd"
)

// TestBrokerOnAClusterThatLosesMembers checks the rules on three members, of which a follower
// is killed before every other rule and started again during the next. No request of a rule
// is in flight then; failover_test.go is about that.
func TestBrokerOnAClusterThatLosesMembers(t *testing.T) {
	c := startCluster(t)
	var last *etcd.Broker
	dead := -1
	open := func(t *testing.T) broker.Broker {
		if dead >= 0 {
			c.start(dead)
			dead = -1
		} else {
			_, dead = c.leader(t.Context())
			c.kill(dead)
		}
		last = c.open(t)
		return last
	}
	brokertest.Run(t, open, brokertest.Options{
		Compact: func(ctx context.Context, r broker.Revision) error { return last.Compact(ctx, r) },
		Reopen:  func(t *testing.T, _ broker.Broker) broker.Broker { return c.open(t) },
	})
}
