package loadgen

import (
	"math"
	"slices"
	"time"
)

// spread is a sample of times, sorted.
type spread []time.Duration

func newSpread(times []time.Duration) spread {
	s := spread(slices.Clone(times))
	slices.Sort(s)
	return s
}

// percentile is the least time that at least p percent of the sample do not
// exceed, zero for an empty sample.
func (s spread) percentile(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(s))))
	return s[min(max(rank, 1), len(s))-1]
}

func (s spread) median() time.Duration { return s.percentile(50) }
func (s spread) p99() time.Duration    { return s.percentile(99) }
func (s spread) max() time.Duration    { return s.percentile(100) }

// perSecond is a rate; it takes no time to do nothing.
func perSecond(n int, took time.Duration) float64 {
	if n == 0 {
		return 0
	}
	return float64(n) / max(took, time.Nanosecond).Seconds()
}

// middle is the median of rates, and their range.
func middle(rates []float64) (median, least, most float64) {
	if len(rates) == 0 {
		return 0, 0, 0
	}
	s := slices.Sorted(slices.Values(rates))
	return s[(len(s)-1)/2], s[0], s[len(s)-1]
}

// unevenness is the difference between the fullest node and the emptiest.
func unevenness(counts []int) int {
	if len(counts) == 0 {
		return 0
	}
	return slices.Max(counts) - slices.Min(counts)
}

// movesNeeded is the least number of tasks that must move so that no two nodes
// differ by more than one: the fullest nodes keep the larger shares.
func movesNeeded(counts []int) int {
	if len(counts) == 0 {
		return 0
	}
	sorted := slices.Clone(counts)
	slices.SortFunc(sorted, func(a, b int) int { return b - a })
	total := 0
	for _, n := range sorted {
		total += n
	}
	share, larger := total/len(sorted), total%len(sorted)
	moves := 0
	for i, n := range sorted {
		target := share
		if i < larger {
			target++
		}
		moves += max(0, n-target)
	}
	return moves
}

func sum(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
