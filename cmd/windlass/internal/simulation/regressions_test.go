package simulation

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// regression is a defect that the simulation has found in Windlass, and a seed that
// finds it in the mutant of that name.
type regression struct {
	mutant string
	seed   uint64
	what   string
}

// readRegressions reads testdata/regressions.txt: one defect a line, the mutant,
// the seed, and what it was.
func readRegressions(t *testing.T) (all []regression) {
	t.Helper()
	f, err := os.Open("testdata/regressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() // only read from
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var r regression
		if n, err := fmt.Sscan(line, &r.mutant, &r.seed); n != 2 {
			t.Fatalf("%q: %v", line, err)
		}
		fields := strings.SplitN(line, "  ", 3)
		if len(fields) != 3 {
			t.Fatalf("%q: three fields, two spaces apart", line)
		}
		r.what = fields[2]
		all = append(all, r)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%d regressions are there (%v)", len(all), err)
	}
	return all
}

// That these seeds still show the defects is checked by make mutants, which runs them
// first.
func TestRegressions_TheSeedsThatFoundDefectsFindNone(t *testing.T) {
	if testing.Short() {
		t.Skip("these seeds take too long with the race detector")
	}
	for _, r := range readRegressions(t) {
		t.Run(r.mutant, func(t *testing.T) {
			t.Parallel()
			Run(t, Options{Seed: r.seed, Length: *lengthFlag})
		})
	}
}

func TestRegressions_EachHasItsMutant(t *testing.T) {
	names := map[string]bool{}
	for _, m := range readMutants(t) {
		names[m.name] = true
	}
	for _, r := range readRegressions(t) {
		if !names[r.mutant] || r.what == "" {
			t.Errorf("%s: there is no such mutant, or it is not said what it was (%q)", r.mutant, r.what)
		}
	}
}
