package inspect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/shorten"
)

// FailureGroup is the tasks of a type that an error has stopped, for now or for good, and whose last errors
// are of one kind: their first lines differ in words with digits at most, such as addresses, IDs and times.
// Its JSON is stable.
type FailureGroup struct {
	Type string `json:"type"`
	// Error is the last error of the latest of them.
	Error string `json:"error"`
	Tasks int    `json:"tasks"`
	// Statuses counts them by status: failed, sleeping until they are tried again, or in fault until
	// somebody tells them to run. A task that sleeps for another reason counts with the last error that it had.
	Statuses map[windlass.Status]int `json:"statuses"`
	// FirstAt and LastAt are when the first and the latest of them had their last error.
	FirstAt *time.Time `json:"first_at"`
	LastAt  *time.Time `json:"last_at"`
	// IDs of the latest of them, at most FailureIDsMax, the latest first.
	IDs []string `json:"ids"`
}

// FailureIDsMax is the maximum of IDs in a FailureGroup.
const FailureIDsMax = 10

// Failures groups the selected tasks that an error has stopped by type and last error, the largest
// group first. It ignores the filter's statuses and limit.
func (i *Inspector) Failures(ctx context.Context, f windlass.Filter) ([]FailureGroup, error) {
	f.Statuses, f.Limit = []windlass.Status{windlass.StatusFailed, windlass.StatusSleeping, windlass.StatusFault}, 0
	all := map[[2]string][]windlass.TaskInfo{}
	listed, err := i.client.Tasks(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, t := range listed {
		if t.Status == windlass.StatusFailed || len(t.Errors) > 0 {
			key := [2]string{t.Type, kindOfError(t.LastError())}
			all[key] = append(all[key], t)
		}
	}
	groups := make([]FailureGroup, 0, len(all))
	for _, tasks := range all {
		slices.SortStableFunc(tasks, func(a, b windlass.TaskInfo) int { return laterFirst(erredAt(&a), erredAt(&b)) })
		latest := tasks[0]
		g := FailureGroup{
			Type: latest.Type, Error: latest.LastError(), Tasks: len(tasks), Statuses: map[windlass.Status]int{},
			FirstAt: erredAt(&tasks[len(tasks)-1]), LastAt: erredAt(&latest),
		}
		for n, t := range tasks {
			if g.Statuses[t.Status]++; n < FailureIDsMax {
				g.IDs = append(g.IDs, t.ID)
			}
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), strings.Compare(a.Type, b.Type), strings.Compare(a.Error, b.Error))
	})
	return groups, nil
}

// erredAt returns when the task failed, or had its last error, nil if that is not known.
func erredAt(t *windlass.TaskInfo) *time.Time {
	if n := len(t.Errors); t.FinishedAt == nil && n > 0 {
		return &t.Errors[n-1].Timestamp
	}
	return t.FinishedAt
}

func laterFirst(a, b *time.Time) int {
	switch {
	case a != nil && b != nil:
		return b.Compare(*a)
	case a == b:
		return 0
	case a == nil:
		return 1
	}
	return -1
}

// kindOfError returns the part of an error that is the same for errors of one kind. Those of
// tasks that were set aside are of one kind, whichever nodes died.
func kindOfError(text string) string {
	if strings.HasPrefix(text, deaths.SetAside) {
		return deaths.SetAside
	}
	return shorten.Kind(text)
}
