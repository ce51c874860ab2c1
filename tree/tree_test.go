package tree

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the beginning of time in these tests.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after returns the time some seconds after start.
func after(seconds float64) *time.Time {
	at := start.Add(time.Duration(seconds * float64(time.Second)))
	return &at
}

// job returns one with a path and a status, changed by change.
func job(path Path, status windlass.Status, change ...func(*JobInfo)) JobInfo {
	j := JobInfo{Path: path, Status: status}
	for _, c := range change {
		c(&j)
	}
	return j
}

func on(node string) func(*JobInfo) { return func(j *JobInfo) { j.Node = node } }

func ran(from, to float64) func(*JobInfo) {
	return func(j *JobInfo) { j.ClaimedAt, j.FinishedAt = after(from), after(to) }
}

func claimed(at float64) func(*JobInfo) { return func(j *JobInfo) { j.ClaimedAt = after(at) } }

func because(reason string) func(*JobInfo) { return func(j *JobInfo) { j.Reason = reason } }

func blockedBy(ids ...string) func(*JobInfo) { return func(j *JobInfo) { j.BlockedBy = ids } }

func needs(ids ...string) func(*JobInfo) { return func(j *JobInfo) { j.Needs = ids } }

func errored(texts ...string) func(*JobInfo) {
	return func(j *JobInfo) {
		for _, text := range texts {
			j.Errors = append(j.Errors, statemachine.ErrorEntry{Timestamp: start, Error: text})
		}
	}
}

// many returns jobs below one path, or roots, named by their number.
func many(below Path, count int, status func(int) windlass.Status) []JobInfo {
	jobs := make([]JobInfo, count)
	for i := range jobs {
		jobs[i] = job(below.Child(fmt.Sprintf("job%05d", i), "t"), status(i))
	}
	return jobs
}

func always(s windlass.Status) func(int) windlass.Status {
	return func(int) windlass.Status { return s }
}

// paths returns the paths of jobs, on one line.
func paths(jobs []JobInfo) string {
	var all []string
	for _, j := range jobs {
		all = append(all, string(j.Path))
	}
	return strings.Join(all, " ")
}

func joined(paths []Path) string { return strings.Trim(fmt.Sprint(paths), "[]") }
