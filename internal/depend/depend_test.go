package depend

import (
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBlockers(t *testing.T) {
	for _, c := range []struct {
		id    string
		needs []string
		want  []string
	}{
		{"a", nil, nil},
		{"a|b", nil, []string{"a"}},
		{"a|b|c", nil, []string{"a", "a|b"}},
		{"a|b", []string{"x", "a", "x"}, []string{"a", "x"}},
		{"|b", nil, nil},
		{"ab", []string{"z"}, []string{"z"}},
	} {
		if got := Blockers(c.id, c.needs); !slices.Equal(got, c.want) {
			t.Errorf("Blockers(%q, %q) = %q, want %q", c.id, c.needs, got, c.want)
		}
	}
}

func TestList_NamesTheFirstOnesAndSaysHowManyThereAre(t *testing.T) {
	for _, c := range []struct {
		first []string
		tasks int
		want  string
	}{
		{nil, 0, ""},
		{[]string{"a"}, 1, "a"},
		{[]string{"a", "b", "c", "d"}, 4, "a, b, c, d"},
		{[]string{"a", "b", "c", "d", "e"}, 5, "a, b, c and 2 more"},
		{[]string{"a", "b", "c", "d"}, 9000, "a, b, c and 8997 more"},
		{[]string{"a"}, 3, "a and 2 more"},
		{[]string{"j_t|*"}, 1, "j_t|* (1 task)"},
		{[]string{"j_t", "j_t|*"}, 759, "j_t, j_t|* (759 tasks)"},
		{[]string{"a", "b", "c", "j_t|*"}, 9000, "a, b, c, … (9000 tasks)"},
	} {
		if got := List(c.first, c.tasks); got != c.want {
			t.Errorf("%d tasks, the first %q: %q, want %q", c.tasks, c.first, got, c.want)
		}
	}
}

func TestCycle_Z12_IsTheWayFromATaskBackToItself(t *testing.T) {
	waits := map[string][]string{"a": {"x", "b"}, "b": {"c"}, "c": {"y", "a"}, "x": {"y"}, "in": {"a"}, "self": {"self"}}
	for id, want := range map[string][]string{"a": {"a", "b", "c", "a"}, "c": {"c", "a", "b", "c"}, "in": nil, "x": nil, "none": nil, "self": {"self", "self"}} {
		if got := Cycle(id, func(id string) []string { return waits[id] }); !slices.Equal(got, want) {
			t.Errorf("Cycle(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestAcyclic_Z12_HasWhatLeadsIntoNoCycle(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + random.IntN(8)
		waits := map[string][]string{}
		name := func() string { return string(rune('a' + random.IntN(n+1))) } // one may be no key
		for i := range n {
			id := string(rune('a' + i))
			waits[id] = nil
			for range random.IntN(3) {
				waits[id] = append(waits[id], name()) // perhaps twice
			}
		}
		next := func(id string) []string { return waits[id] }
		leads := func(id string) bool {
			reached, stack := map[string]bool{id: true}, []string{id}
			for len(stack) > 0 {
				at := stack[len(stack)-1]
				if stack = stack[:len(stack)-1]; Cycle(at, next) != nil {
					return true
				}
				for _, to := range next(at) {
					if !reached[to] {
						reached[to], stack = true, append(stack, to)
					}
				}
			}
			return false
		}
		acyclic := Acyclic(waits)
		for id := range waits {
			if acyclic[id] == leads(id) {
				t.Fatalf("%s in %v: %v", id, waits, acyclic)
			}
		}
	}
}

func TestBlockers_ANeedOfAllBelowAJobComesAfterThatJob(t *testing.T) {
	if got, want := Blockers("c", []string{"b", "a|*", "a", "a|*"}), []string{"b", "a", "a|*"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := NeededAs("a|b|c"), []string{"a|b|c", "a|*", "a|b|*"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for id, below := range map[string]bool{"a": false, "a|b": true, "a|b|c": true, "ab": false, "ab|c": false, "": false} {
		if IsBelow(id, "a") != below {
			t.Errorf("%q is below a: %t", id, !below)
		}
	}
}

func TestAddTrees_MakesACycleThroughWhatIsBelowAJobOne(t *testing.T) {
	waits := map[string][]string{"sum": {"a", "a|*"}, "a|b": {"a"}, "a|b|c": {"a", "a|b", "d"}, "d": {"sum"}, "e|f": {"e"}}
	AddTrees(waits)
	if got, want := waits["a|*"], []string{"a|b", "a|b|c"}; !slices.Equal(got, want) {
		t.Errorf("below it are %q, want %q", got, want)
	}
	if got, want := Arrows(AnyCycle(waits)), "a|b|c → d → sum → a|* → a|b|c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
