package windlass

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/listing"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/statemachine"
)

// Retention selects the finished tasks to forget. The zero value forgets nothing.
type Retention struct {
	// Age is how long after its end a task is forgotten; zero means never.
	Age time.Duration
	// Count is how many tasks that have ended are kept, the latest ones; zero means
	// all.
	Count int
	// Unblock also forgets failures that live tasks wait for, which then run. It is for
	// Prune; Config.Retention cannot set it.
	Unblock bool
}

// RetentionEvery is how often the nodes apply their retention.
const RetentionEvery = time.Minute

func (r Retention) validate() error {
	if r.Age < 0 {
		return badInput("retention age", r.Age, "must not be negative")
	}
	if r.Count < 0 {
		return badInput("retention count", r.Count, "must not be negative")
	}
	return nil
}

// Pruned lists what Prune has forgotten, or would forget.
type Pruned struct {
	// IDs of the tasks, sorted.
	IDs []string
	// Kept is how many selected tasks that have ended stay. Blocking is how many of
	// them stay only because they failed and live tasks wait for them, and Needed how
	// many only because live tasks, also running ones, need them: see Claim.Results.
	Kept, Blocking, Needed int
}

// Prune forgets tasks that have ended, and what deleted tasks left behind: state,
// history and progress, and jobs in the tree. A task is forgotten if it is older than
// the retention's age or not among its count of latest ones, unless a live task needs it
// or is below it in the tree. f selects among them. Live tasks are never touched. With
// dryRun, Prune only returns what it would do. It can be repeated after an error; the
// result lists what was forgotten before the error.
//
// A check of one listing is no lock: what is submitted at the same moment may find that
// what it needs was forgotten.
func (c *Client) Prune(ctx context.Context, r Retention, f Filter, dryRun bool) (Pruned, error) {
	if err := r.validate(); err != nil {
		return Pruned{}, err
	}
	if r.Age == 0 && r.Count == 0 {
		return Pruned{}, badInput("retention", "", "an age or a count must be given")
	}
	if !dryRun {
		if err := c.checkLayout(ctx); err != nil {
			return Pruned{}, fmt.Errorf("prune: %w", err)
		}
	}
	ended, err := edit.FindEnded(ctx, c.broker, c.space, &editing, edit.Choice{
		State: func(id string, value []byte) (time.Time, bool) { return endedAt(id, value, f) },
		Bare:  func(id string) bool { return f.onlyIDs() && strings.HasPrefix(id, f.IDPrefix) },
	})
	if err != nil {
		return Pruned{}, fmt.Errorf("prune: %w", err)
	}
	slices.SortFunc(ended, func(a, b edit.Ended) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID)) })
	oldest := time.Now().Add(-r.Age)
	pruned, done := Pruned{IDs: []string{}}, 0
	var old []edit.Ended
	for i, t := range ended {
		switch goes := r.Age > 0 && t.At.Before(oldest) || r.Count > 0 && i >= r.Count; {
		case goes && t.Blocks && !r.Unblock:
			pruned.Kept++
			pruned.Blocking++
		case goes && t.Needed && !t.Blocks:
			pruned.Kept++
			pruned.Needed++
		case goes:
			old = append(old, t)
		default:
			pruned.Kept++
		}
	}
	for some := range slices.Chunk(old, edit.Chunk) {
		gone, err := edit.Forget(ctx, c.broker, c.space, some, dryRun)
		done += len(some)
		meter.Set(ctx, done)
		pruned.IDs = append(pruned.IDs, gone...)
		if err != nil {
			slices.Sort(pruned.IDs)
			return pruned, fmt.Errorf("prune: %w", err)
		}
	}
	slices.Sort(pruned.IDs)
	return pruned, nil
}

// onlyIDs reports whether a filter selects by ID alone.
func (f Filter) onlyIDs() bool {
	return len(f.Types)+len(f.Statuses)+len(f.Nodes)+len(f.Error)+len(f.Tags) == 0 && f.Since.IsZero()
}

// endedAt returns when a state was written last, and false if it is not selected. The
// state left behind by a deleted task is selected too, if the filter uses IDs only.
func endedAt(id string, value []byte, f Filter) (time.Time, bool) {
	record, err := statemachine.Parse(value)
	if err != nil {
		return time.Time{}, false // a person should look at it
	}
	if !record.State.Terminal() && !f.onlyIDs() {
		return time.Time{}, false
	}
	info := TaskInfo{
		ID: id, Type: record.Type, Status: Status(record.State), Node: record.Node, Errors: record.Errors, Tags: listing.TagsIn(record.Spec),
		SubmittedAt: record.SubmittedAt, ClaimedAt: record.ClaimedAt, FinishedAt: record.ChangedAt,
	}
	if !f.Matches(info) {
		return time.Time{}, false
	}
	if record.ChangedAt == nil {
		return time.Time{}, true
	}
	return *record.ChangedAt, true
}
