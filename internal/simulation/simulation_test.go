package simulation

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedsFlag  = flag.Int("seeds", 50, "how many seeds to simulate")
	fromFlag   = flag.Uint64("from", 1, "the first seed")
	lengthFlag = flag.Duration("length", 25*time.Minute, "virtual time of each seed, at least")
)

func TestSimulation_M10_M16_WhatIsPromisedHoldsWhateverHappens(t *testing.T) {
	seeds := *seedsFlag
	if testing.Short() {
		seeds = min(seeds, 8) // with the race detector they take ten times as long
	}
	total := newReport()
	for i := range seeds {
		seed := *fromFlag + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			total.Add(Run(t, Options{Seed: seed, Length: *lengthFlag}))
		})
		if i%20 == 19 {
			runtime.GC()
		}
	}
	t.Log(total)
}
