package pause

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFor_WaitsAsLongAsTheContextLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !For(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("waited for %v, of a minute", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if For(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("waited for %v, with a context that ends after a second", time.Since(began))
		}
	})
}
