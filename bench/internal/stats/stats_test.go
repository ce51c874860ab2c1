package stats

import (
	"slices"
	"testing"
)

func TestOf_IsTheMedianWithItsRange(t *testing.T) {
	for _, c := range []struct {
		name   string
		sample []float64
		want   Summary
	}{
		{"nothing", nil, Summary{}},
		{"one", []float64{5}, Summary{Count: 1, Median: 5, Least: 5, Most: 5}},
		{"odd", []float64{30, 10, 20}, Summary{Count: 3, Median: 20, Least: 10, Most: 30, Spread: 1}},
		{"even", []float64{4, 1, 3, 2}, Summary{Count: 4, Median: 2.5, Least: 1, Most: 4, Spread: 1.2}},
		{"negative", []float64{-1, -3, -2}, Summary{Count: 3, Median: -2, Least: -3, Most: -1, Spread: 1}},
		{"around zero", []float64{-1, 0, 1}, Summary{Count: 3, Least: -1, Most: 1}},
	} {
		if got := Of(c.sample); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestOf_LeavesTheSampleAsItIs(t *testing.T) {
	sample := []float64{3, 1, 2}
	if Of(sample); !slices.Equal(sample, []float64{3, 1, 2}) {
		t.Errorf("it was sorted: %v", sample)
	}
}

func TestPercentile_IsOneOfTheSample(t *testing.T) {
	var sample []float64
	for i := range 200 {
		sample = append(sample, float64(200-i))
	}
	for p, want := range map[float64]float64{0: 1, 0.5: 1, 50: 100, 99: 198, 99.5: 199, 100: 200} {
		if got := Percentile(sample, p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	if Percentile(nil, 50) != 0 {
		t.Error("an empty sample has a percentile")
	}
}

func TestRatio_OfNothingIsZero(t *testing.T) {
	if Ratio(3, 2) != 1.5 || Ratio(1, 0) != 0 {
		t.Errorf("%v and %v", Ratio(3, 2), Ratio(1, 0))
	}
}

func TestTurns_EverySideBeginsAsOften(t *testing.T) {
	for _, sides := range []int{1, 2, 3, 5} {
		firsts := map[int]int{}
		for round := range 2 * sides {
			order := Turns(sides, round)
			firsts[order[0]]++
			if slices.Sort(order); len(slices.Compact(order)) != sides {
				t.Fatalf("round %d of %d sides is %v", round, sides, order)
			}
		}
		for side := range sides {
			if firsts[side] != 2 {
				t.Errorf("of %d sides, %d begins %d times in %d rounds", sides, side, firsts[side], 2*sides)
			}
		}
	}
	if slices.Equal(Turns(3, 0), Turns(3, 3)) {
		t.Error("the same side always follows the same one")
	}
}

func TestPaired_ComparesWhatWasMeasuredTogether(t *testing.T) {
	// The machine got slower by three, and both sides with it.
	if got := Paired([]float64{1, 3, 3.3}, []float64{2, 6, 3.3}); got != 0.5 {
		t.Errorf("got %v", got)
	}
	if got := Paired(nil, []float64{1}); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
