package windlass

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/listing"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

// TaskInfo is a task in a list. Its JSON is stable.
type TaskInfo struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status Status `json:"status"`
	// Node holds the task, or held it last if the task has ended. It is empty for a
	// live task that no node holds.
	Node string `json:"node"`
	// Token is the fencing token of that claim.
	Token       int64      `json:"token"`
	SubmittedAt *time.Time `json:"submitted_at"`
	ClaimedAt   *time.Time `json:"claimed_at"`
	Priority    int        `json:"priority"`
	// Weight is how much of a node's share and capacity it takes. 0 means 1, or, for a
	// task that has ended, that the weight is no longer known.
	Weight int `json:"weight,omitempty"`
	Blocked
	Errors []statemachine.ErrorEntry `json:"errors"`
	// Failures is how many errors counted when the latest one happened, and FailuresMax
	// is how many fail the task; 0 means that no number does. Both are 0 for a task that
	// has ended.
	Failures    int `json:"failures,omitempty"`
	FailuresMax int `json:"failures_max,omitempty"`
	// Restarts says how often the handler that runs now has started again what it runs, nil
	// if never. It must not be modified.
	Restarts *statemachine.Restarts `json:"restarts,omitempty"`
	// Until is when a sleeping task runs again.
	Until *time.Time `json:"until,omitempty"`
	// NotBefore is the earliest time to start; until then the task is pending.
	NotBefore time.Time `json:"not_before,omitzero"`
	// FinishedAt is when the task reached a terminal state.
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	// Tags are those that it was submitted with. They must not be modified.
	Tags map[string]string `json:"tags,omitempty"`
}

// Blocked is what a task waits for. Its JSON is stable.
type Blocked struct {
	// BlockedBy lists the tasks that it waits for, the first 20 of them; see
	// Filter.AllBlockers. As in Spec.Needs, "|*" after the ID of a job stands for all jobs
	// below it.
	BlockedBy []string `json:"blocked_by"`
	// BlockedByCount is how many tasks these are. All jobs below one that it waits for
	// count.
	BlockedByCount int `json:"blocked_by_count,omitempty"`
	// FailedNeeds lists those of them that have failed or were killed, the first 20 of
	// FailedNeedsCount: the task waits until they are run again or forgotten.
	FailedNeeds      []string `json:"failed_needs,omitempty"`
	FailedNeedsCount int      `json:"failed_needs_count,omitempty"`
}

// readListed reads what a list shows of a spec.
func readListed(value []byte) listing.Spec {
	spec, err := parseSpec(value)
	s := listing.Spec{
		Type: spec.Type, Tags: spec.Tags, Priority: spec.Priority, Weight: spec.Weight, NotBefore: spec.NotBefore, Needs: spec.Needs, Retry: spec.RetryPolicy(), Err: err,
	}
	if at := spec.SubmittedAt; !at.IsZero() { // a copy: a pointer into the spec would keep all of it
		s.Submitted = &at
	}
	return s
}

// infoOf returns a listed task as it is shown.
func infoOf(t *listing.Task) TaskInfo {
	w := &t.Waits
	return TaskInfo{
		ID: t.ID, Type: t.Type, Status: Status(t.Status), Node: t.Node, Token: t.Token, SubmittedAt: t.SubmittedAt, ClaimedAt: t.ClaimedAt,
		Priority: t.Priority, Weight: t.Weight,
		Blocked: Blocked{BlockedBy: notNil(w.By), BlockedByCount: w.Count, FailedNeeds: w.Failed, FailedNeedsCount: w.FailedCount},
		Errors:  notNil(t.Errors), Failures: t.Failures, FailuresMax: t.FailuresMax, Restarts: t.Restarts,
		Until: t.Until, NotBefore: t.NotBefore, FinishedAt: t.FinishedAt, Tags: t.Tags,
	}
}

// notNil returns a list that is [] in JSON if it is empty.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// WaitsFor names the tasks, the first ones of many with their number, or those of them that
// failed, if any did; empty for none.
func (b Blocked) WaitsFor() string {
	if b.FailedNeedsCount > 0 {
		return shorten.ListOf(b.FailedNeeds, b.FailedNeedsCount) + ", which failed"
	}
	return depend.List(b.BlockedBy, b.BlockedByCount)
}

// LastError returns the text of the latest error, empty if there is none.
func (t TaskInfo) LastError() string { return statemachine.LastError(t.Errors) }

// ChangedAt returns when something happened to the task last, as far as a list shows it:
// it was submitted or claimed, had an error, or ended. It is zero if no time is known.
func (t TaskInfo) ChangedAt() time.Time {
	var latest time.Time
	for _, at := range []*time.Time{t.SubmittedAt, t.ClaimedAt, t.FinishedAt} {
		if at != nil && at.After(latest) {
			latest = *at
		}
	}
	if n := len(t.Errors); n > 0 && t.Errors[n-1].Timestamp.After(latest) {
		latest = t.Errors[n-1].Timestamp
	}
	return latest
}

// TaskDetail is everything about one task. Its JSON is stable.
type TaskDetail struct {
	TaskInfo
	// Spec and Props are what it was submitted with, also once it has ended.
	Spec  *Spec           `json:"spec"`
	Props json.RawMessage `json:"props"`
	// State is the stored state record, nil if there is none.
	State *statemachine.Record `json:"state"`
	// Result is the result that its handler left last.
	Result json.RawMessage `json:"result"`
	// Command is the command that was sent to it and is not carried out yet.
	Command *statemachine.Command `json:"command,omitempty"`
	// SilentSince is when the holder of the task last renewed its session; see
	// NodeStatus.SilentSince.
	SilentSince time.Time `json:"silent_since,omitzero"`
}

// Filter selects tasks. The zero value selects all.
type Filter struct {
	// Types, Statuses and Nodes each select the tasks that match one of their entries;
	// empty selects all.
	Types    []string
	Statuses []Status
	Nodes    []string
	// Error selects the tasks whose last error contains it.
	Error string
	// Tags selects the tasks that have all of these tags. An empty value matches any
	// value of its key.
	Tags map[string]string
	// Since selects the tasks to which something has happened at that time or later;
	// see TaskInfo.ChangedAt.
	Since time.Time
	// AllBlockers selects no tasks; it lists all that those wait for which are selected, as
	// many as these may be.
	AllBlockers bool
	// IDPrefix selects the IDs that begin with it.
	IDPrefix string
	// After selects the IDs that are greater, byte by byte. With the last ID of one
	// list and a Limit, it selects the next page.
	After string
	// Limit is the maximum length of a list; 0 means no limit. Watches ignore it.
	Limit int
}

// Matches reports whether a task is selected.
func (f Filter) Matches(t TaskInfo) bool {
	return (len(f.Types) == 0 || slices.Contains(f.Types, t.Type)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, t.Status)) &&
		(len(f.Nodes) == 0 || slices.Contains(f.Nodes, t.Node)) &&
		strings.Contains(t.LastError(), f.Error) && strings.HasPrefix(t.ID, f.IDPrefix) && t.ID > f.After &&
		(f.Since.IsZero() || !t.ChangedAt().Before(f.Since)) && f.matchesTags(t.Tags)
}

func (f Filter) matchesTags(tags map[string]string) bool {
	for key, want := range f.Tags {
		if value, ok := tags[key]; !ok || want != "" && value != want {
			return false
		}
	}
	return true
}
