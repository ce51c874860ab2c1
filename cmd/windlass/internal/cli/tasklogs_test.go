package cli

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
)

// A report stays stored when its claim ends.
func TestTaskLog_LacksNothingByTheReportOfAnEarlierClaim(t *testing.T) {
	claimed := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for name, test := range map[string]struct {
		claimed *time.Time
		report  exectask.Report
		want    string
	}{
		"of this claim":                 {&claimed, exectask.Report{At: claimed.Add(1), LogError: "disk full"}, "the log is incomplete: disk full"},
		"of an earlier claim":           {&claimed, exectask.Report{At: claimed.Add(-1), LogError: "disk full"}, ""},
		"the claim is not recorded":     {nil, exectask.Report{At: claimed, LogError: "disk full"}, "the log is incomplete: disk full"},
		"nothing is missing":            {&claimed, exectask.Report{At: claimed.Add(1)}, ""},
		"the node was not asked so far": {&claimed, exectask.Report{}, ""},
	} {
		log := taskLog{task: windlass.TaskDetail{TaskInfo: windlass.TaskInfo{ClaimedAt: test.claimed}}}
		if got := log.lacksBy(test.report); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A log that does not exist was removed, or could not be created, which has a reason.
func TestTaskLog_IsRemovedUnlessItCouldNotBeCreated(t *testing.T) {
	for name, test := range map[string]struct {
		status windlass.Status
		bytes  int64 // of the log that the last run has written
		lacks  string
		want   bool
	}{
		"removed":                               {windlass.StatusCompleted, 80, "", true},
		"removed, and once incomplete":          {windlass.StatusCompleted, 80, "5 bytes are missing", true},
		"not created":                           {windlass.StatusCompleted, 0, "disk full", false},
		"not created, sleeps":                   {windlass.StatusSleeping, 0, "disk full", false},
		"not created, runs":                     {windlass.StatusRunning, 0, "disk full", false},
		"not created now, but for a run before": {windlass.StatusRunning, 80, "disk full", false},
		"runs and has not printed":              {windlass.StatusRunning, 0, "", true},
	} {
		log := taskLog{task: windlass.TaskDetail{TaskInfo: windlass.TaskInfo{Status: test.status}}, result: exectask.Outcome{LogBytes: test.bytes}}
		if got := log.isRemoved(test.lacks); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
