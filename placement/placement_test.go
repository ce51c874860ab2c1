package placement

import (
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestShares_M43_AreEvenCompleteAndMoveAsLittleAsPossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 12).Draw(t, "counts")
		unowned := rapid.IntRange(0, 60).Draw(t, "unowned")
		loads := make([]Load, len(counts))
		total := unowned
		for i, n := range counts {
			loads[i] = Load{Node: fmt.Sprint("n", i), Tasks: n}
			total += n
		}
		shares := Shares(loads, unowned)
		sum, releases := 0, 0
		for i, s := range shares {
			sum += s
			releases += max(0, counts[i]-s)
		}
		if sum != total || slices.Max(shares)-slices.Min(shares) > 1 {
			t.Fatalf("shares %v of %v with %d unowned", shares, counts, unowned)
		}
		if least := leastReleases(counts, total); releases != least {
			t.Fatalf("shares %v of %v release %d tasks; %d would do", shares, counts, releases, least)
		}
	})
}

// leastReleases gives the larger shares to the fullest nodes by trying, for
// every node, whether it is above the floor, which is the best anyone can do.
func leastReleases(counts []int, total int) int {
	small, larger := total/len(counts), total%len(counts)
	released := 0
	for _, n := range counts {
		if n > small {
			released += n - small
			if larger > 0 {
				larger--
				released--
			}
		}
	}
	return released
}

func TestShares_M43_AreAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 12).Draw(t, "counts")
		loads := make([]Load, len(counts))
		for i, n := range counts {
			loads[i] = Load{Node: fmt.Sprint("n", i), Tasks: n}
		}
		for i, s := range Shares(loads, 0) {
			loads[i].Tasks = s
		}
		for i, s := range Shares(loads, 0) {
			if s != loads[i].Tasks {
				t.Fatalf("%v is even and would still change to %v", loads, Shares(loads, 0))
			}
		}
	})
}

func TestRank_IsAPermutationThatDoesNotDependOnOrder(t *testing.T) {
	nodes := []string{"a", "b", "c", "d", "e"}
	reversed := slices.Clone(nodes)
	slices.Reverse(reversed)
	for i := range 100 {
		task := fmt.Sprint("task-", i)
		seen := map[int]bool{}
		for _, n := range nodes {
			r := Rank(task, n, nodes)
			seen[r] = true
			if other := Rank(task, n, reversed); other != r {
				t.Fatalf("rank of %s for %s: %d, and %d in another order", n, task, r, other)
			}
		}
		if len(seen) != len(nodes) {
			t.Fatalf("ranks for %s are not a permutation: %v", task, seen)
		}
	}
	if r := Rank("t", "stranger", nodes); r != len(nodes) {
		t.Errorf("a stranger has rank %d", r)
	}
}

func TestRank_SpreadsEvenlyAndANewNodeTakesOnlyItsPart(t *testing.T) {
	before, after := []string{"n1", "n2", "n3"}, []string{"n1", "n2", "n3", "n4"}
	first := func(task string, nodes []string) string {
		for _, n := range nodes {
			if Rank(task, n, nodes) == 0 {
				return n
			}
		}
		return ""
	}
	const tasks = 3000
	count, moved := map[string]int{}, 0
	for i := range tasks {
		task := fmt.Sprint("pkg/", i)
		was, is := first(task, before), first(task, after)
		count[was]++
		if was != is {
			moved++
			if is != "n4" {
				t.Fatalf("%s moved from %s to %s when n4 joined", task, was, is)
			}
		}
	}
	for n, c := range count {
		if c < tasks/3*9/10 || c > tasks/3*11/10 {
			t.Errorf("%s is first for %d of %d tasks", n, c, tasks)
		}
	}
	if moved < tasks/4*8/10 || moved > tasks/4*12/10 {
		t.Errorf("%d of %d tasks changed their first node; a quarter should", moved, tasks)
	}
}
