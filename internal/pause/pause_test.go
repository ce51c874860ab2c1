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
func TestBackoff_PausesLongerEachTimeUpToAMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{Min: time.Second, Max: 5 * time.Second}
		for i, about := range []time.Duration{1, 2, 4, 5, 5, 1} {
			if i == 5 {
				b.Reset()
			}
			began := time.Now()
			if !b.Pause(t.Context()) {
				t.Fatal("it did not come to its end")
			}
			if took := time.Since(began); took < about*time.Second/2 || took >= about*time.Second*3/2 {
				t.Errorf("pause %d took %v, want about %v", i, took, about*time.Second)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if b.Pause(ended) || time.Since(began) > 0 {
			t.Error("it goes on when its context has ended")
		}
	})
}
