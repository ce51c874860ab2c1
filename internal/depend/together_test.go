package depend

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// refusedBy returns the needs that tasks were refused for, by their index.
func refusedBy(some []Refusal) map[int]string {
	by := map[int]string{}
	for _, r := range some {
		by[r.Index] = r.Need
	}
	return by
}

func TestTogether_M11_ATaskComesAfterWhatItNeeds(t *testing.T) {
	needs := map[string][]string{"a": {"b", "c", "elsewhere"}, "b": {"c"}, "c": nil, "d": nil}
	ids := []string{"a", "b", "c", "d"}
	line := NewTogether(ids, func(i int) []string { return needs[ids[i]] })
	next := func(most int, want ...int) {
		t.Helper()
		if got := line.Next(most); !slices.Equal(got, want) {
			t.Fatalf("next are %v, want %v", got, want)
		}
	}
	next(1, 2)
	next(9, 3)
	next(9)
	line.Stored(3)
	next(9)
	line.Stored(2)
	next(9, 1)
	next(9)
	line.Stored(1)
	next(9, 0)
}

func TestTogether_M11_ARefusalIsPassedOnToAllThatNeedIt(t *testing.T) {
	ids := []string{"p1", "p2", "p3", "p4", "other"}
	needs := [][]string{{"p2"}, {"p1"}, {"p1"}, {"p3", "other"}, nil}
	line := NewTogether(ids, func(i int) []string { return needs[i] })
	if got := line.Next(9); !slices.Equal(got, []int{4}) {
		t.Errorf("next are %v", got)
	}
	line.Stored(4)
	if got := line.Next(9); len(got) > 0 {
		t.Errorf("next are %v, and wait for themselves", got)
	}
	got := refusedBy(line.Refuse(0))
	if want := fmt.Sprint(map[int]string{1: "p1", 2: "p1", 3: "p3"}); fmt.Sprint(got) != want {
		t.Errorf("refused are %v, want %v", got, want)
	}
	if again := append(line.Refuse(0), line.Refuse(2)...); len(again) > 0 || len(line.Next(9)) > 0 {
		t.Errorf("refused again are %v", again)
	}
}

func TestTogether_AnIDThatComesTwiceKeepsItsOrderAndIsThereIfOneOfThemIs(t *testing.T) {
	ids := []string{"x", "needs x", "x", "y"}
	needs := [][]string{{"y"}, {"x"}, nil, nil}
	for _, c := range []struct {
		first, second, last bool // whether they are stored
	}{{true, false, true}, {false, true, true}, {false, false, false}} {
		line := NewTogether(ids, func(i int) []string { return needs[i] })
		settle := func(want int, stored bool) (because []Refusal) {
			t.Helper()
			if got := line.Next(9); !slices.Equal(got, []int{want}) {
				t.Fatalf("next are %v, want %d", got, want)
			}
			if stored {
				line.Stored(want)
				return nil
			}
			return line.Refuse(want)
		}
		settle(3, true)
		if because := settle(0, c.first); len(because) > 0 {
			t.Errorf("%v are refused before the last of the ID is known", because)
		}
		because := settle(2, c.second)
		if got := line.Next(9); c.last != slices.Equal(got, []int{1}) || c.last == (len(because) > 0) {
			t.Errorf("%+v: next are %v, refused %v", c, got, because)
		}
	}
}

// TestTogether_M11_RandomGraphs compares with the definition: a task is handed out once all
// that it needs are stored, and is refused if, and only if, one of these is refused.
func TestTogether_M11_RandomGraphs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		n := 1 + random.IntN(12)
		order := random.Perm(n) // a task needs those before it here
		ids, needs := make([]string, n), make([][]string, n)
		for at, i := range order {
			ids[i] = fmt.Sprint(i)
			for range random.IntN(3) {
				if at > 0 {
					needs[i] = append(needs[i], fmt.Sprint(order[random.IntN(at)]))
				}
			}
		}
		line := NewTogether(ids, func(i int) []string { return needs[i] })
		const stored, refused = 1, 2
		state := make([]int, n)
		check := func(i int, want int) {
			for _, need := range needs[i] {
				var at int
				_, _ = fmt.Sscan(need, &at)
				if want == stored && state[at] != stored {
					t.Fatalf("%d is handed out before %s, in %v", i, need, needs)
				}
			}
		}
		refuse := func(i int) {
			state[i] = refused
			for _, r := range line.Refuse(i) {
				var at int
				_, _ = fmt.Sscan(r.Need, &at)
				if state[r.Index] != 0 || state[at] != refused || !slices.Contains(needs[r.Index], r.Need) {
					t.Fatalf("%+v when %d was refused, in %v with %v", r, i, needs, state)
				}
				state[r.Index] = refused
			}
		}
		if random.IntN(2) == 0 { // as for bad input
			refuse(random.IntN(n))
		}
		var out []int
		for {
			out = append(out, line.Next(1+random.IntN(n))...)
			if len(out) == 0 {
				break
			}
			k := random.IntN(len(out)) // answers come in any order
			i := out[k]
			out = slices.Delete(out, k, k+1)
			if check(i, stored); state[i] != 0 {
				t.Fatalf("%d is handed out and was %d, in %v", i, state[i], needs)
			}
			if random.IntN(6) == 0 {
				refuse(i)
			} else {
				state[i] = stored
				line.Stored(i)
			}
		}
		if slices.Contains(state, 0) {
			t.Fatalf("not all are settled: %v, in %v", state, needs)
		}
	}
}

func TestTogether_M11_WhatNeedsAllBelowAJobComesAfterAllOfThatInTheCall(t *testing.T) {
	ids := []string{"sum", "a|b|c", "a|b", "a", "ab|c"}
	needs := [][]string{{"a", "a|*"}, {"a", "a|b"}, {"a"}, nil, {"sum"}}
	line, got := NewTogether(ids, func(i int) []string { return needs[i] }), []int(nil)
	for next := line.Next(9); len(next) > 0; next = line.Next(9) {
		for _, i := range next {
			line.Stored(i)
		}
		got = append(got, next...)
	}
	if !slices.Equal(got, []int{3, 2, 1, 0, 4}) {
		t.Errorf("the order is %v", got)
	}
	line = NewTogether(ids, func(i int) []string { return needs[i] })
	if got, want := refusedBy(line.Refuse(1)), map[int]string{0: "a|b|c", 4: "sum"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("refused are %v, want %v", got, want)
	}
}
