package simulation

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seedsFlag  = flag.Int("seeds", 12, "how many seeds to simulate")
	fromFlag   = flag.Uint64("from", 1, "the first seed")
	evenFlag   = flag.Bool("even", false, "fail if tasks end up unevenly (V2), which depends a little on how goroutines are scheduled")
	lengthFlag = flag.Duration("length", 25*time.Minute, "virtual time of each seed, at least")
)

func TestSimulation_M10_M16_TheGuaranteesHoldUnderAllFaults(t *testing.T) {
	simulate(t, *seedsFlag, Options{})
}

// Half as many seeds are enough with commands to tasks.
func TestSimulation_M50_M58_StatesAreKeptUnderAllFaults(t *testing.T) {
	simulate(t, (*seedsFlag+1)/2, Options{States: true})
}

// A tenth as many seeds are enough with trees of jobs, and take long enough.
func TestSimulation_Z06_Z08_TreesOfJobsAreRunUnderAllFaults(t *testing.T) {
	simulate(t, (*seedsFlag+9)/10, Options{Jobs: true})
}

// A fifth as many seeds are enough with elections.
func TestSimulation_I10_L08_AtMostOneLeadsUnderAllFaults(t *testing.T) {
	simulate(t, (*seedsFlag+4)/5, Options{Elections: true})
}

func simulate(t *testing.T, seeds int, options Options) {
	if testing.Short() {
		seeds = min(seeds, 3) // the race detector makes them ten times slower
	}
	total := newReport()
	var mu sync.Mutex
	began := time.Now()
	t.Run("group", func(t *testing.T) {
		for i := range seeds {
			seed := *fromFlag + uint64(i)
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				options := options
				options.Seed, options.Length, options.Even = seed, *lengthFlag, *evenFlag
				report := Run(t, options)
				mu.Lock()
				defer mu.Unlock()
				total.Add(report)
				total.Real = time.Since(began)
				if total.Seeds%logEvery == 0 {
					t.Log(total) // so that an interrupted long run has a result
				}
			})
		}
	})
	t.Log(total)
	// No task kills its process. But who is to blame is a matter of probability (decision 0056),
	// and many processes are killed in these worlds.
	if n := total.Counts[taskSetAside]; n > 3+total.Seeds/10 {
		t.Errorf("O02: in %d worlds %d tasks were set aside", total.Seeds, n)
	}
}

// logEvery is after how many seeds the table so far is printed.
const logEvery = 500
