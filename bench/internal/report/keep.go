package report

import (
	"fmt"
	"slices"
	"strings"
)

// changeable begins the names of facts that are others with each run.
var changeable = []string{"load", "one write"}

// Keep makes a report of the workloads of this run and, for those that it has not
// measured, of an earlier one: what is compared is compared within a workload. The
// earlier one must be of the same machine and programs, and as long a run.
func (r *Report) Keep(earlier *Report) error {
	if earlier.Quick != r.Quick {
		return fmt.Errorf("the earlier report: its run was quick: %t, and this one: %t", earlier.Quick, r.Quick)
	}
	for _, facts := range [][2][]Fact{{earlier.Machine, r.Machine}, {earlier.Versions, r.Versions}} {
		if err := sameFacts(facts[0], facts[1]); err != nil {
			return err
		}
	}
	for _, w := range r.Workloads {
		w.Apart = r.Date
	}
	all := slices.Clone(earlier.Workloads)
	for _, w := range r.Workloads {
		i := slices.IndexFunc(all, func(had *Workload) bool { return had.Name == w.Name })
		if i < 0 {
			all = append(all, w)
		} else {
			all[i] = w
		}
	}
	for _, what := range earlier.LeftOut {
		if !slices.ContainsFunc(r.Workloads, func(w *Workload) bool { return strings.HasPrefix(what, w.Name+",") }) {
			r.LeftOut = append(r.LeftOut, what)
		}
	}
	added := slices.DeleteFunc(r.Versions, func(f Fact) bool {
		return slices.ContainsFunc(earlier.Versions, func(had Fact) bool { return had.Name == f.Name })
	})
	r.Versions = slices.Concat(earlier.Versions, added)
	r.Workloads, r.Machine = all, earlier.Machine
	r.Date, r.Took = earlier.Date, earlier.Took
	return nil
}

func sameFacts(earlier, now []Fact) error {
	for _, f := range now {
		i := slices.IndexFunc(earlier, func(had Fact) bool { return had.Name == f.Name })
		isChangeable := slices.ContainsFunc(changeable, func(name string) bool { return strings.HasPrefix(f.Name, name) })
		if i >= 0 && !isChangeable && earlier[i].Value != f.Value {
			return fmt.Errorf("the earlier report: %s: %q, and now %q", f.Name, earlier[i].Value, f.Value)
		}
	}
	return nil
}
