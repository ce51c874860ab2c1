package commands

import (
	"context"

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
	return changed, after, err
}
