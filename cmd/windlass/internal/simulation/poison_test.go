package simulation

import (
	"fmt"
	"sync"
	"testing"
)

// Half as many seeds are enough with tasks that kill their nodes. Who is to blame is a matter of
// probability (decision 0056), so of many fleets some may be judged wrongly.
func TestSimulation_O02_OnlyWhatKillsItsNodesIsSetAside(t *testing.T) {
	seeds := (*seedsFlag + 1) / 2
	if testing.Short() {
		seeds = min(seeds, 3)
	}
	var mu sync.Mutex
	wrong := map[string][]string{}
	t.Run("group", func(t *testing.T) {
		for i := range seeds {
			seed := *fromFlag + uint64(i)
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				b := runPoisoned(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for what, found := range map[string][]string{"innocent": b.innocent, "unfound": b.unfound, "late": b.late, "uneven": b.uneven} {
					if len(found) > 0 {
						wrong[what] = append(wrong[what], fmt.Sprintf("seed %d: %q", seed, found))
					}
				}
			})
		}
	})
	for what, most := range map[string]int{"innocent": 0, "unfound": seeds / 1000, "late": seeds / 1000, "uneven": 0} {
		if n := len(wrong[what]); n > most {
			t.Errorf("O02: in %d of %d fleets tasks are %s, more than in %d: %q", n, seeds, what, most, wrong[what])
		} else if n > 0 {
			t.Logf("in %d of %d fleets tasks are %s: %q", n, seeds, what, wrong[what])
		}
	}
}
