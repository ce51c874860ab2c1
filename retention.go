package windlass

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
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
	ended, err := c.ended(ctx, f)
	if err != nil {
		return Pruned{}, fmt.Errorf("prune: %w", err)
	}
	slices.SortFunc(ended, func(a, b endedTask) int { return cmp.Or(b.at.Compare(a.at), strings.Compare(a.id, b.id)) })
	oldest := time.Now().Add(-r.Age)
	pruned, done := Pruned{IDs: []string{}}, 0
	var old []endedTask
	for i, t := range ended {
		switch goes := r.Age > 0 && t.at.Before(oldest) || r.Count > 0 && i >= r.Count; {
		case goes && t.blocks && !r.Unblock:
			pruned.Kept++
			pruned.Blocking++
		case goes && t.needed && !t.blocks:
			pruned.Kept++
			pruned.Needed++
		case goes:
			old = append(old, t)
		default:
			pruned.Kept++
		}
	}
	for some := range slices.Chunk(old, submitChunk) {
		gone, err := c.forget(ctx, some, dryRun)
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

// endedTask is a task that is not live and has left data behind.
type endedTask struct {
	id string
	at time.Time
	// state is the revision of its state, zero for none.
	state broker.Revision
	// needed is true if it has a state and a live task needs it, blocks if it failed
	// and a live task waits for it.
	needed, blocks bool
}

// ended finds the ended tasks, page by page: there may be very many.
func (c *Client) ended(ctx context.Context, f Filter) ([]endedTask, error) {
	byID := map[string]*endedTask{}
	// unselected has tasks with a state that their history must not select: they are
	// live, not what f asks for, or not readable.
	unselected := map[string]bool{}
	// left reports whether a task without a state is selected.
	left := func(id string) bool { return !unselected[id] && f.onlyIDs() && strings.HasPrefix(id, f.IDPrefix) }
	// A task with a state here and without a task key in the later read has ended;
	// in the opposite order it could have been submitted in between.
	for page, err := range c.broker.List(ctx, c.space.States()) {
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			if p := c.space.Parse(kv.Key); p.Kind == keys.State {
				if at, ok := endedAt(p.Name, kv.Value, f); ok {
					byID[p.Name] = &endedTask{id: p.Name, at: at, state: kv.Modified}
				} else {
					unselected[p.Name] = true
				}
			}
		}
	}
	for page, err := range c.broker.List(ctx, c.space.Histories()) {
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			p := c.space.Parse(kv.Key)
			if p.Kind != keys.History || byID[p.Name] != nil || !left(p.Name) {
				continue
			}
			if h, err := statemachine.ParseHistory(kv.Value); err == nil && len(h.Entries) > 0 {
				byID[p.Name] = &endedTask{id: p.Name, at: h.Entries[len(h.Entries)-1].At}
			}
		}
	}
	if err := c.spareLive(ctx, byID, left); err != nil {
		return nil, err
	}
	ended := make([]endedTask, 0, len(byID))
	for _, t := range byID {
		ended = append(ended, *t)
	}
	return ended, nil
}

// spareLive removes the live tasks, and marks those of the others that live tasks need. It
// takes a time that grows with the needs of the live tasks. left reports whether to forget a
// failure mark of which nothing else is left.
func (c *Client) spareLive(ctx context.Context, byID map[string]*endedTask, left func(id string) bool) error {
	var failed []string
	needed := map[string]bool{}
	need := func(id string, spec []byte) {
		for _, b := range depend.Blockers(id, needsOf(spec)) { // of an unreadable one the ancestors
			needed[b] = true
		}
	}
	for page, err := range c.broker.List(ctx, c.space.Tasks()) {
		if err != nil {
			return err
		}
		for _, kv := range page.KVs {
			p := c.space.Parse(kv.Key)
			switch p.Kind {
			case keys.Task:
				need(p.Name, kv.Value)
			case keys.Requeue: // as which the task runs again
				var again coordinator.Requeue
				if json.Unmarshal(kv.Value, &again) == nil {
					need(p.Name, again.Spec)
				}
			case keys.Failed:
				failed = append(failed, p.Name)
			}
			switch {
			case p.Kind == keys.Handover: // a handover note that is no longer needed
			case p.Kind != keys.Failed:
				delete(byID, p.Name)
			case byID[p.Name] == nil && left(p.Name):
				byID[p.Name] = &endedTask{id: p.Name} // nothing else is left of it
			}
		}
	}
	isNeeded := func(id string) bool {
		return slices.ContainsFunc(depend.NeededAs(id), func(need string) bool { return needed[need] })
	}
	for _, t := range byID {
		t.needed = t.state != 0 && isNeeded(t.id)
	}
	for _, id := range failed {
		if t := byID[id]; t != nil {
			t.blocks = isNeeded(id)
		}
	}
	return nil
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

// forget removes what tasks left behind, unless they have been submitted again.
func (c *Client) forget(ctx context.Context, tasks []endedTask, dryRun bool) (gone []string, err error) {
	if dryRun {
		for _, t := range tasks {
			gone = append(gone, t.id)
		}
		return gone, nil
	}
	txns := make([]broker.Txn, len(tasks))
	for i, t := range tasks {
		state := broker.Absent(c.space.State(t.id))
		if t.state != 0 {
			state = broker.Modified(c.space.State(t.id), t.state)
		}
		txns[i] = broker.Txn{
			If: []broker.Cond{broker.Absent(c.space.Task(t.id)), broker.Absent(c.space.Props(t.id)), broker.Absent(c.space.Owner(t.id)), state},
			Then: []broker.Op{
				broker.Delete(c.space.State(t.id)), broker.Delete(c.space.History(t.id)), broker.Delete(c.space.Progress(t.id)),
				broker.Delete(c.space.Failed(t.id)), broker.Delete(c.space.Handover(t.id)),
			},
		}
		if keys.CheckJobID(t.id) == nil {
			txns[i].Then = append(txns[i].Then, broker.Delete(c.space.Job(t.id)))
		}
	}
	for i, r := range c.broker.Commit(ctx, txns...) {
		switch {
		case r.Err != nil:
			err = errors.Join(err, r.Err)
		case r.OK:
			gone = append(gone, tasks[i].id)
		}
	}
	return gone, err
}
