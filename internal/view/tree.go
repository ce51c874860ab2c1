package view

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

// QueueJob is a job to be queued, or one below each of several: a line of a file, or
// the body of a request. Its JSON is stable.
type QueueJob struct {
	Name         string          `json:"name" doc:"of the job; unique with its type below one job"`
	Type         string          `json:"type" doc:"names the handler that runs it"`
	Data         json.RawMessage `json:"data,omitempty" doc:"what its handler gets: any JSON"`
	Parent       string          `json:"parent,omitempty" doc:"path of the job to queue it under"`
	Under        *tree.Pattern   `json:"under,omitempty" doc:"queue one under every job that matches"`
	NameTemplate string          `json:"name_template,omitempty" doc:"makes the name, of {{.Parent}} and {{.Child}}"`
	Requeue      bool            `json:"requeue,omitempty" doc:"run a job that is worked on again, once its run has ended"`
	Cascade      bool            `json:"cascade,omitempty" doc:"run those below again as well that have ended"`
	Spec
}

// Request returns what is queued, without the template of the name, which the caller has to
// apply. Data that is null is none.
func (j QueueJob) Request() tree.Request {
	return tree.Request{
		Name: j.Name, Type: j.Type, Data: notNull(j.Data), Parent: tree.Path(j.Parent), Under: j.Under,
		Spec: j.Of(""), Requeue: j.Requeue, Cascade: j.Cascade,
	}
}

// Queued is the outcome of several requests. Its JSON is stable.
type Queued struct {
	Queued  int                     `json:"queued"`
	Effects map[windlass.Effect]int `json:"effects"`
	Failed  int                     `json:"failed"`
	// Errors are the first ErrorsShownMax.
	Errors []string `json:"errors"`
}

// QueuedOf sums up what tree.Tree.QueueInTurn returns.
func QueuedOf(queued []tree.Queued, failed []error) Queued {
	sum := Queued{Queued: len(queued), Effects: map[windlass.Effect]int{}, Failed: len(failed), Errors: ErrorsShown(failed)}
	for _, q := range queued {
		sum.Effects[q.Effect]++
	}
	return sum
}

// Job is everything about a job except its history. Its JSON is stable.
type Job struct {
	tree.JobInfo
	// Spec is gone once the job has ended.
	Spec   *windlass.Spec       `json:"spec"`
	State  *statemachine.Record `json:"state"`
	Result json.RawMessage      `json:"result"`
	// Progress is its latest checkpoint.
	Progress json.RawMessage `json:"progress"`
}

// Forest is a tree, or a part of it, with its progress. Its JSON is stable.
type Forest struct {
	Jobs     []tree.JobInfo `json:"jobs"`
	Progress tree.Progress  `json:"progress"`
}

// ForestOf is the view of a forest at a time.
func ForestOf(f *tree.Forest, now time.Time) Forest {
	return Forest{Jobs: append([]tree.JobInfo{}, f.Jobs()...), Progress: f.Progress(now)}
}

// Cleared has the jobs that were removed, or would be. Its JSON is stable.
type Cleared struct {
	Cleared int         `json:"cleared"`
	DryRun  bool        `json:"dry_run"`
	Paths   []tree.Path `json:"paths"`
}

// ClearedOf is the view of an answer of Tree.Clear, with the paths sorted.
func ClearedOf(paths []tree.Path, dryRun bool) Cleared {
	paths = append([]tree.Path{}, paths...)
	slices.Sort(paths)
	return Cleared{Cleared: len(paths), DryRun: dryRun, Paths: paths}
}

// Leased is a job that was claimed for a time. Its JSON is stable.
type Leased struct {
	ID string `json:"id"`
	// Path and Name are empty for a task that is no job.
	Path  tree.Path       `json:"path"`
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Owner string          `json:"owner"`
	Token int64           `json:"token" doc:"the fencing token, which completing, failing and releasing need"`
	Until time.Time       `json:"until" doc:"when the claim ends by itself"`
	Data  json.RawMessage `json:"data"`
}

// LeasedOf is the view of a lease.
func LeasedOf(of lease.Lease) Leased {
	l := Leased{ID: of.ID, Type: of.Type, Owner: of.Owner, Token: of.Token, Until: of.Until, Data: of.Props}
	if path, err := tree.ParsePath(of.ID); err == nil {
		l.Path, l.Name = path, path.Name()
	}
	return l
}
