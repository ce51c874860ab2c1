package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// Update changes a live task, and returns what it has changed about it and what the task
// is now.
func Update(ctx context.Context, c *windlass.Client, id string, change func(*windlass.Submission) error) (view.Changed, windlass.Submission, error) {
	changed := view.Changed{ID: id}
	var after windlass.Submission
	_, err := c.Update(ctx, id, func(s *windlass.Submission) error {
		before := *s
		if err := change(s); err != nil {
			return err
		}
		after, changed.Changes = *s, view.ChangesOf(before, *s)
		return nil
	})
	if errors.Is(err, windlass.ErrFinished) {
		err = fmt.Errorf("%w, and only a live task is updated; the command retry runs it again, with the same changes", err)
	}
	return changed, after, err
}

// changesByID is what a command has changed of tasks.
type changesByID map[string]struct {
	changes []view.Change
	after   *windlass.Submission
}

// record returns a change that does what another does, nil for nothing, and remembers it.
func (all changesByID) record(change func(*windlass.Submission) error) func(*windlass.Submission) error {
	return func(s *windlass.Submission) error {
		if change == nil {
			return nil
		}
		before, entry := *s, all[s.ID]
		if err := change(s); err != nil {
			return err
		}
		after := *s
		entry.changes, entry.after = view.ChangesOf(before, after), &after
		all[before.ID] = entry
		return nil
	}
}
