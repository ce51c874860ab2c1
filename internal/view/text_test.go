package view

import "testing"

func TestPercent_IsOneHundredOnlyIfNothingIsLeft(t *testing.T) {
	for _, c := range []struct {
		part, total int
		want        string
	}{{0, 0, "0.0%"}, {0, 7, "0.0%"}, {2, 3, "66.6%"}, {1, 1000, "0.1%"}, {999, 1000, "99.9%"}, {999_999, 1_000_000, "99.9%"}, {8, 8, "100.0%"}} {
		if got := Percent(c.part, c.total); got != c.want {
			t.Errorf("%d of %d is %s, want %s", c.part, c.total, got, c.want)
		}
	}
}
