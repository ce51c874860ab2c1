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

// TestBrokerInTheProcess checks the rules on connections inside the process.
func TestBrokerInTheProcess(t *testing.T) {
	s := start(t, fast(""))
	runRules(t, s, func(*testing.T) broker.Broker { return s.Broker() })
}

// TestBrokerOverTheSocket checks the rules on connections of other processes.
func TestBrokerOverTheSocket(t *testing.T) {
	s := start(t, withSocket(t.TempDir()))
	runRules(t, s, func(t *testing.T) broker.Broker { return dial(t, s.Dir()) })
}

func runRules(t *testing.T, s *embedded.Server, open func(*testing.T) broker.Broker) {
	brokertest.Run(t, open, brokertest.Options{
		Compact:  s.Compact,
		Reopen:   func(t *testing.T, _ broker.Broker) broker.Broker { return open(t) },
		Parallel: true,
	})
}

// With a socket etcd logs more.
func TestANormalStartAndStopWithASocketIsQuiet(t *testing.T) {
	var log bytes.Buffer
	s := start(t, embedded.Config{UnsafeNoFsync: true, Socket: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	mustPut(t, s.Broker(), "/a")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "slow") && !strings.Contains(line, "overloaded") { // on a loaded machine
			t.Error("it logged", line)
		}
	}
}
