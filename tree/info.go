package tree

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

// JobInfo is a job as it was when it was read. Its JSON is stable. In a Forest the path
// identifies it: ID, Name, Type and Parent always follow from it, and no list is nil.
type JobInfo struct {
	Path Path `json:"path"`
	// ID of its task.
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
	// Parent is empty for a root.
	Parent Path            `json:"parent"`
	Data   json.RawMessage `json:"data"`
	Status windlass.Status `json:"status"`
	// Node holds the job, or held it last if the job has ended; Token is the fencing
	// token of that claim.
	Node     string `json:"node"`
	Token    int64  `json:"token"`
	Priority int    `json:"priority"`
	// QueuedAt, ClaimedAt and FinishedAt are nil if that has not happened, or is not
	// known.
	QueuedAt   *time.Time `json:"queued_at"`
	ClaimedAt  *time.Time `json:"claimed_at"`
	FinishedAt *time.Time `json:"finished_at"`
	// Needs lists the IDs of the tasks that it was queued to wait for, in addition to
	// its ancestors.
	Needs []string `json:"needs"`
	// What it waits for now.
	windlass.Blocked
	// Errors lists the latest errors, the oldest first.
	Errors []statemachine.ErrorEntry `json:"errors"`
	// Until is when it runs again, if it sleeps.
	Until *time.Time `json:"until,omitempty"`
	// Reason is why it is blocked for good, or was skipped.
	Reason string `json:"reason,omitempty"`
}

// Pending reports whether the job is live and not held.
func (j JobInfo) Pending() bool { return j.Status != "" && !j.Ended() && j.Node == "" }

// Working reports whether the job is held, even if it sleeps or is paused.
func (j JobInfo) Working() bool { return j.Status != "" && !j.Ended() && j.Node != "" }

// Completed reports whether the job is done.
func (j JobInfo) Completed() bool { return j.Status == windlass.StatusCompleted }

// Ended reports whether the job has ended, successfully or not.
func (j JobInfo) Ended() bool { return j.Completed() || j.gaveUp() }

// gaveUp reports whether the job ended without being done, so that those below it do
// not run.
func (j JobInfo) gaveUp() bool {
	return j.Status == windlass.StatusFailed || j.Status == windlass.StatusKilled
}

// normal fills in what follows from the path, and the lists.
func (j JobInfo) normal() JobInfo {
	j.ID, j.Name, j.Type, j.Parent = j.Path.ID(), j.Path.Name(), j.Path.Type(), j.Path.Parent()
	if j.Needs == nil {
		j.Needs = []string{}
	}
	if j.BlockedBy == nil {
		j.BlockedBy = []string{}
	}
	if j.Errors == nil {
		j.Errors = []statemachine.ErrorEntry{}
	}
	return j
}
