//go:build e2e

package embedded_test

import (
	"bytes"
	"log/slog"
	"strings"
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

// A server with a socket starts one thing more, of which etcd tells.
func TestANormalStartAndStopWithASocketIsQuiet(t *testing.T) {
	var log bytes.Buffer
	s := start(t, embedded.Config{UnsafeNoFsync: true, Socket: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mustPut(t, s.Broker(), "/a")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "slow") && !strings.Contains(line, "overloaded") { // as a loaded machine is
			t.Error("it logged", line)
		}
	}
}
