//go:build e2e

package embedded_test

import (
	"testing"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// TestBrokerInTheProcess checks the rules on connections that go straight into a
// server without a listener.
func TestBrokerInTheProcess(t *testing.T) {
	s := start(t, fast(""))
	open := func(*testing.T) broker.Broker { return s.Broker() }
	brokertest.Run(t, open, brokertest.Options{
		Compact:  s.Compact,
		Reopen:   func(t *testing.T, _ broker.Broker) broker.Broker { return open(t) },
		Parallel: true,
	})
}

// TestBrokerOverTheSocket checks the rules on connections of other processes.
func TestBrokerOverTheSocket(t *testing.T) {
	s := start(t, withSocket(t.TempDir()))
	open := func(t *testing.T) broker.Broker {
		b, err := embedded.Dial(t.Context(), s.Dir())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	brokertest.Run(t, open, brokertest.Options{
		Compact:  s.Compact,
		Reopen:   func(t *testing.T, _ broker.Broker) broker.Broker { return open(t) },
		Parallel: true,
	})
}
