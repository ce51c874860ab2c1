package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/clock"
)

// TestWitness_HasASessionAgainWhenItWasLost loses its session twice.
func TestWitness_HasASessionAgainWhenItWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Witness(ctx, f, Config{Clock: clock.Process}) }()
		for range 2 {
			f.fail(broker.NewError("keepalive", "", broker.ErrSessionExpired, nil))
			time.Sleep(time.Minute)
			f.fails.Store(nil)
			before := f.renewals.Load()
			time.Sleep(time.Minute)
			if n := f.renewals.Load() - before; n < 15 || n > 25 {
				t.Errorf("%d renewals in a minute; one every 3s are due", n)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !f.revoked.Load() {
			t.Errorf("%v, revoked: %t", err, f.revoked.Load())
		}
	})
}

// TestWitness_GivesUpWhereItMayNot is of a user who may only read.
func TestWitness_GivesUpWhereItMayNot(t *testing.T) {
	refused := broker.NewError("grant", "", broker.ErrPermission, nil)
	if err := Witness(t.Context(), &refusing{err: refused}, Config{}); !errors.Is(err, broker.ErrPermission) {
		t.Error(err)
	}
}

// refusing is a broker that grants nothing.
type refusing struct {
	broker.Broker
	err error
}

func (r *refusing) Grant(context.Context, string, time.Duration) (broker.Session, error) {
	return broker.Session{}, r.err
}
