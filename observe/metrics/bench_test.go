package metrics_test

import (
	"context"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/observe/metrics"
)

// instant is a broker that does nothing, at once.
type instant struct{ broker.Broker }

// Commit implements broker.Broker.
func (instant) Commit(_ context.Context, txns ...broker.Txn) []broker.Result {
	return make([]broker.Result, len(txns))
}

// What measuring adds to a call of the broker, and to the events of one run.
func BenchmarkCommit(b *testing.B) {
	m := newMetrics(b, metrics.Config{})
	for name, store := range map[string]broker.Broker{"plain": instant{}, "measured": m.Broker(instant{})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			txn := broker.Txn{}
			for b.Loop() {
				store.Commit(b.Context(), txn)
			}
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	m := newMetrics(b, metrics.Config{})
	told := m.Events(events.Node{})
	b.ReportAllocs()
	for b.Loop() {
		told.Granted(events.Grant{Task: "a", Type: "x", Cause: events.Placed, Waited: time.Millisecond})
		told.Ended(events.End{Task: "a", Type: "x", Outcome: events.Completed, Ran: true, Took: time.Millisecond})
	}
}
