package exectask

import (
	"testing"
	"time"
)

func TestUsage_IsMadeOfTwoSamples(t *testing.T) {
	first := sample{At: time.Minute, CPU: 10 * time.Second, Memory: 1, Processes: 1}
	for name, test := range map[string]struct {
		last sample
		want Usage
	}{
		"two cores":             {sample{At: time.Minute + 500*time.Millisecond, CPU: 11 * time.Second, Memory: 7, Processes: 3}, Usage{CPUSeconds: 11, CPUShare: 2, MemoryBytes: 7, Processes: 3}},
		"less than before":      {sample{At: 2 * time.Minute, CPU: 4 * time.Second}, Usage{CPUSeconds: 4}},
		"at the very same time": {sample{At: time.Minute, CPU: 11 * time.Second}, Usage{CPUSeconds: 11}},
	} {
		if got := usageOf(first, test.last); *got != test.want {
			t.Errorf("%s: %+v, want %+v", name, *got, test.want)
		}
	}
}
