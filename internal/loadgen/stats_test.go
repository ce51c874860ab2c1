package loadgen

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSpread_PercentilesAreOfTheSample(t *testing.T) {
	if s := newSpread(nil); s.median() != 0 || s.p99() != 0 || s.max() != 0 {
		t.Error("an empty sample has times")
	}
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(200-i))
	}
	s := newSpread(times)
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 1, 50: 100, 99: 198, 99.5: 199, 100: 200} {
		if got := s.percentile(p); got != want {
			t.Errorf("percentile %v is %d, want %d", p, got, want)
		}
	}
	if times[0] != 200 {
		t.Error("the sample itself was sorted")
	}
}

func TestSpread_APercentileBoundsItsShareOfTheSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 20), func(n int) time.Duration { return time.Duration(n) }), 1, 50).Draw(t, "times")
		p := rapid.Float64Range(1, 100).Draw(t, "p")
		at := newSpread(times).percentile(p)
		within, below := 0, 0
		for _, d := range times {
			if d <= at {
				within++
			}
			if d < at {
				below++
			}
		}
		if need := p / 100 * float64(len(times)); float64(within) < need-1e-9 || float64(below) >= need {
			t.Fatalf("%v is percentile %v of %v", at, p, times)
		}
	})
}

func TestMiddle_IsTheMedianWithItsRange(t *testing.T) {
	if median, least, most := middle([]float64{3, 1, 2}); median != 2 || least != 1 || most != 3 {
		t.Errorf("median %v, from %v to %v", median, least, most)
	}
}

func TestMovesNeeded_IsTheLeastThatMakesNodesEven(t *testing.T) {
	for _, c := range []struct {
		counts []int
		want   int
	}{
		{nil, 0}, {[]int{5}, 0}, {[]int{334, 333, 333, 0}, 250}, {[]int{2, 1}, 0}, {[]int{1, 2, 0}, 1}, {[]int{0, 0, 7}, 4},
	} {
		if got := movesNeeded(c.counts); got != c.want {
			t.Errorf("%v needs %d moves, want %d", c.counts, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 6).Draw(t, "counts")
		// One task at a time from the fullest to the emptiest is optimal.
		moved, byHand := 0, slices.Clone(counts)
		for ; unevenness(byHand) > 1; moved++ {
			byHand[slices.Index(byHand, slices.Max(byHand))]--
			byHand[slices.Index(byHand, slices.Min(byHand))]++
		}
		if got := movesNeeded(counts); got != moved {
			t.Fatalf("%v needs %d moves, by hand %d", counts, got, moved)
		}
	})
}

func TestNumber_IsShortAndWholeNumbersAreWhole(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.1234: "0.123", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,235", 1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}
