// Package stats has the few statistics that a comparison is reported with. They
// are those of small samples: the median and the range, because the mean of
// three runs on a shared machine says little and their deviation nothing.
package stats

import (
	"math"
	"slices"
)

// Summary is what is shown of a sample.
type Summary struct {
	// Count is the size of the sample. Everything else is zero if it is.
	Count int `json:"count"`
	// Median is the middle one, or the mean of the two in the middle.
	Median float64 `json:"median"`
	// Least and Most are the range.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Spread is the range beside the median: 0.1 is a tenth of it. It is zero if
	// the median is.
	Spread float64 `json:"spread"`
}

// Of summarizes a sample, in any order.
func Of(sample []float64) Summary {
	if len(sample) == 0 {
		return Summary{}
	}
	s := slices.Sorted(slices.Values(sample))
	n := len(s)
	sum := Summary{Count: n, Median: s[n/2], Least: s[0], Most: s[n-1]}
	if n%2 == 0 {
		sum.Median = (s[n/2-1] + s[n/2]) / 2
	}
	if sum.Median != 0 {
		sum.Spread = (sum.Most - sum.Least) / math.Abs(sum.Median)
	}
	return sum
}

// Median is the one of a sample, zero if it is empty.
func Median(sample []float64) float64 { return Of(sample).Median }

// Percentile is the least value that at least p percent of a sample do not
// exceed, zero for an empty sample.
func Percentile(sample []float64, p float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(sample))
	rank := int(math.Ceil(p / 100 * float64(len(s))))
	return s[min(max(rank, 1), len(s))-1]
}

// Ratio is a beside b, zero if there is no b.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Paired is the median of the ratios of one sample to another, value by value: what was
// measured in turns has been slowed down by the same other things. It is zero for none.
func Paired(a, b []float64) float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = Ratio(a[i], b[i])
	}
	return Median(ratios)
}

// Turns is the order of n sides in a round: each round begins with the next side,
// and after every side has begun once the same comes backwards, so that no side is
// always first, nor always after the same one.
func Turns(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	if round/n%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
