package doctor

import (
	"fmt"
	"slices"
	"strings"
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

var severity = map[Status]int{OK: 0, Unknown: 1, Warning: 2, Problem: 3}

// Check is one line of the report. Its JSON is stable.
type Check struct {
	// Name is what was checked.
	Name   string `json:"check"`
	Status Status `json:"status"`
	// Found is the result, Do the advice.
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
	// Details are examples, at most DetailsMax of each kind of finding.
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

// check sums the findings up; found is healthy if there are none.
func (n *notes) check(name, healthy string) Check {
	c := Check{Name: name, Status: OK, Found: healthy}
	var found, do []string
	for _, k := range n.list {
		if severity[k.status] > severity[c.Status] {
			c.Status = k.status
		}
		found, do = append(found, fmt.Sprintf("%d %s", k.count, k.what)), append(do, k.do)
		c.Details = append(c.Details, k.examples...)
		if more := k.count - len(k.examples); more > 0 {
			c.Details = append(c.Details, fmt.Sprintf("and %d more", more))
		}
	}
	if len(found) > 0 {
		c.Found, c.Do = strings.Join(found, "; "), strings.Join(do, "; ")
	}
	return c
}
