package memory_test

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns the first connection to a new store.
func open(t *testing.T) *memory.Broker {
	store := memory.New()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store.Broker()
}

func TestBroker(t *testing.T) {
	var store *memory.Store
	brokertest.Run(t, func(t *testing.T) broker.Broker {
		b := open(t)
		store = b.Store()
		return b
	}, brokertest.Options{
		Around:  synctest.Test,
		Compact: func(ctx context.Context, rev broker.Revision) error { return store.Compact(ctx, rev) },
		Reopen:  func(_ *testing.T, b broker.Broker) broker.Broker { return b.(*memory.Broker).Store().Broker() },
	})
}
