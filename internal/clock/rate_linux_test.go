package clock

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

func TestMeasureRate_AgreesWithWhatTheKernelSays(t *testing.T) {
	r, err := MeasureRate(t.Context(), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	// Slewing, to remove an offset, adds up to 500 ppm for a while.
	if r.KernelKnown && math.Abs(r.PPM-r.Kernel) > 700 {
		t.Errorf("measured %.1f ppm, and the kernel applies %.1f", r.PPM, r.Kernel)
	}
}

func TestMeasureRate_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := MeasureRate(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
