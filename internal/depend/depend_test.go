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
