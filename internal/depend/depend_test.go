package depend

import (
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

func TestCycle_Z12_IsTheWayFromATaskBackToItself(t *testing.T) {
	waits := map[string][]string{"a": {"x", "b"}, "b": {"c"}, "c": {"y", "a"}, "x": {"y"}, "in": {"a"}, "self": {"self"}}
	for id, want := range map[string][]string{"a": {"a", "b", "c", "a"}, "c": {"c", "a", "b", "c"}, "in": nil, "x": nil, "none": nil, "self": {"self", "self"}} {
		if got := Cycle(id, func(id string) []string { return waits[id] }); !slices.Equal(got, want) {
			t.Errorf("Cycle(%q) = %q, want %q", id, got, want)
		}
	}
}
