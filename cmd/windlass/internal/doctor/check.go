package doctor

import (
	"fmt"
	"slices"
)

// Status is the outcome of a check.
type Status string

// The statuses, the worst last.
const (
	OK Status = "ok"
	// Unknown: it could not be checked.
	Unknown Status = "unknown"
	// Warning: it works, and someone should look.
	Warning Status = "warning"
	// Problem: something does not work, or will not for long.
	Problem Status = "problem"
)

// Check is one line of the report: a finding, or that there is none. Its JSON is stable.
type Check struct {
	// Name is what was checked. Several findings of one name have a check each.
	Name   string `json:"check"`
	Status Status `json:"status"`
	// Found is the result, Do the advice for it.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
	// Details are examples, at most DetailsMax and how many more there are.
	Details []string `json:"details,omitempty"`
}

// DetailsMax bounds the examples of one kind of finding.
const DetailsMax = 5

type note struct {
	status   Status
	what, do string
	count    int
	examples []string
}

// notes are the findings of one check, grouped by kind, in the order of their first ones.
type notes struct{ list []*note }

// add records a finding; what names its kind, as it reads after a number.
func (n *notes) add(status Status, what, do, example string) {
	i := slices.IndexFunc(n.list, func(k *note) bool { return k.what == what })
	if i < 0 {
		i = len(n.list)
		n.list = append(n.list, &note{status: status, what: what, do: do})
	}
	n.list[i].count++
	if at := n.list[i]; len(at.examples) < DetailsMax {
		at.examples = append(at.examples, example)
	}
}

// checks returns a check for each finding, or one that found it healthy.
func (n *notes) checks(name, healthy string) (checks []Check) {
	if len(n.list) == 0 {
		return []Check{{Name: name, Status: OK, Found: healthy}}
	}
	for _, k := range n.list {
		c := Check{Name: name, Status: k.status, Found: fmt.Sprintf("%d %s", k.count, k.what), Do: k.do, Details: k.examples}
		if more := k.count - len(k.examples); more > 0 {
			c.Details = append(c.Details, fmt.Sprintf("and %d more", more))
		}
		checks = append(checks, c)
	}
	return checks
}
