package edit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Ended is a task that is not live and has left data behind.
type Ended struct {
	ID string
	// At is when it ended, zero if that is not known.
	At time.Time
	// State is the revision of its state, zero for none.
	State broker.Revision
	// Needed is true if it has a state and a live task needs it, Blocks if it failed
	// and a live task waits for it.
	Needed, Blocks bool
}

// Choice selects among what has ended.
type Choice struct {
	// State returns when the state of a task was written last, and false if it is not selected.
	State func(id string, value []byte) (time.Time, bool)
	// Bare reports whether a task without a state is selected.
	Bare func(id string) bool
}

// FindEnded finds tasks that have ended, in no order. It reads page by page: there may be very many.
func FindEnded(ctx context.Context, b broker.Broker, space keys.Space, rules *Rules, choice Choice) ([]Ended, error) {
	byID := map[string]*Ended{}
	// unselected has tasks with a state that their history must not select: they are
	// live, not chosen, or not readable.
	unselected := map[string]bool{}
	// left reports whether a task without a state is selected.
	left := func(id string) bool { return !unselected[id] && choice.Bare(id) }
	// A task with a state here and without a task key in the later read has ended;
	// in the opposite order it could have been submitted in between.
	for page, err := range b.List(ctx, space.States()) {
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			if p := space.Parse(kv.Key); p.Kind == keys.State {
				if at, ok := choice.State(p.Name, kv.Value); ok {
					byID[p.Name] = &Ended{ID: p.Name, At: at, State: kv.Modified}
				} else {
					unselected[p.Name] = true
				}
			}
		}
	}
	for page, err := range b.List(ctx, space.Histories()) {
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			p := space.Parse(kv.Key)
			if p.Kind != keys.History || byID[p.Name] != nil || !left(p.Name) {
				continue
			}
			if h, err := statemachine.ParseHistory(kv.Value); err == nil && len(h.Entries) > 0 {
				byID[p.Name] = &Ended{ID: p.Name, At: h.Entries[len(h.Entries)-1].At}
			}
		}
	}
	if err := spareLive(ctx, b, space, rules, byID, left); err != nil {
		return nil, err
	}
	ended := make([]Ended, 0, len(byID))
	for _, t := range byID {
		ended = append(ended, *t)
	}
	return ended, nil
}

// spareLive removes the live tasks, and marks those of the others that live tasks need. It
// takes a time that grows with the needs of the live tasks. left reports whether to forget a
// failure mark of which nothing else is left.
func spareLive(ctx context.Context, b broker.Broker, space keys.Space, rules *Rules, byID map[string]*Ended, left func(id string) bool) error {
	var failed []string
	needed := map[string]bool{}
	need := func(id string, spec []byte) {
		f, _ := rules.Facts(spec)
		for _, blocker := range depend.Blockers(id, f.Needs) { // of an unreadable one the ancestors
			needed[blocker] = true
		}
	}
	for page, err := range b.List(ctx, space.Tasks()) {
		if err != nil {
			return err
		}
		for _, kv := range page.KVs {
			p := space.Parse(kv.Key)
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
				byID[p.Name] = &Ended{ID: p.Name} // nothing else is left of it
			}
		}
	}
	isNeeded := func(id string) bool {
		return slices.ContainsFunc(depend.NeededAs(id), func(need string) bool { return needed[need] })
	}
	for _, t := range byID {
		t.Needed = t.State != 0 && isNeeded(t.ID)
	}
	for _, id := range failed {
		if t := byID[id]; t != nil {
			t.Blocks = isNeeded(id)
		}
	}
	return nil
}

// Forget removes what tasks left behind, unless they have been submitted again, and returns their IDs. With dryRun it removes
// nothing.
func Forget(ctx context.Context, b broker.Broker, space keys.Space, tasks []Ended, dryRun bool) (gone []string, err error) {
	if dryRun {
		for _, t := range tasks {
			gone = append(gone, t.ID)
		}
		return gone, nil
	}
	txns := make([]broker.Txn, len(tasks))
	for i, t := range tasks {
		state := broker.Absent(space.State(t.ID))
		if t.State != 0 {
			state = broker.Modified(space.State(t.ID), t.State)
		}
		txns[i] = broker.Txn{
			If: []broker.Cond{broker.Absent(space.Task(t.ID)), broker.Absent(space.Props(t.ID)), broker.Absent(space.Owner(t.ID)), state},
			Then: []broker.Op{
				broker.Delete(space.State(t.ID)), broker.Delete(space.History(t.ID)), broker.Delete(space.Progress(t.ID)),
				broker.Delete(space.Failed(t.ID)), broker.Delete(space.Handover(t.ID)),
			},
		}
		if keys.CheckJobID(t.ID) == nil {
			txns[i].Then = append(txns[i].Then, broker.Delete(space.Job(t.ID)))
		}
	}
	for i, r := range b.Commit(ctx, txns...) {
		switch {
		case r.Err != nil:
			err = errors.Join(err, r.Err)
		case r.OK:
			gone = append(gone, tasks[i].ID)
		}
	}
	return gone, err
}
