package deaths

import (
	"fmt"
	"strings"
	"testing"
)

// Many deaths follow, and tell only later who is to blame.
func TestOutdated_WhoIsBlamedIsKeptBesideTheLatest(t *testing.T) {
	var all []Death
	for i := range 3 * CountMax {
		d := Death{Node: "n", Incarnation: fmt.Sprint(i)}
		if i%3 == 0 {
			d.Culprit = "p"
		}
		all = append(all, d, Death{Node: "other", Incarnation: fmt.Sprint("other ", i)}, Death{Node: "third", Incarnation: fmt.Sprint("third ", i)})
	}
	var old []string
	for _, d := range Outdated(all, "n") {
		old = append(old, d.Incarnation)
	}
	if got, want := strings.Join(old, " "), "11 13 14 16 17 19 20 22 23"; got != want {
		t.Errorf("%s are not kept, want %s", got, want)
	}
	for i := range 3 {
		all = append(all, Death{Node: "n", Incarnation: fmt.Sprint("earlier ", i), Culprit: "q"})
	}
	for i := range keptMin {
		if old := Outdated(all[:i], "n"); len(old) != 0 {
			t.Fatalf("of %d together %v are not kept", i, old)
		}
	}
	if old := Outdated(all, "n"); len(old) != 12 {
		t.Errorf("%v are not kept", old)
	}
}
