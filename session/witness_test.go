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

func TestWitness_OpensANewSessionEachTimeOneIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Witness(ctx, f, Config{Clock: clock.Process}) }()
		for range 2 {
			f.fail(broker.ErrSessionExpired)
			time.Sleep(time.Minute)
			f.fails.Store(nil)
			before := f.renewals.Load()
			time.Sleep(time.Minute)
			if n := f.renewals.Load() - before; n < 15 || n > 25 {
				t.Errorf("%d renewals in a minute, want one every 3s", n)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || !f.revoked.Load() {
			t.Errorf("%v, revoked: %t", err, f.revoked.Load())
		}
	})
}

// A user who may only read gets no session.
func TestWitness_ReturnsAnErrorThatWillNotPass(t *testing.T) {
	refused := broker.NewError("grant", "", broker.ErrPermission, nil)
	if err := Witness(t.Context(), &fake{grantErr: refused}, Config{}); !errors.Is(err, broker.ErrPermission) {
		t.Error(err)
	}
}
