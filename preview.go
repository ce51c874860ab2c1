package windlass

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
)

// Preview returns what Enqueue would do with any number of submissions, and changes nothing. The errors are those that it
// would return, in order, if it got all of them at once; the last one is the broker's.
func (c *Client) Preview(ctx context.Context, submissions []Submission) ([]Effect, []error, error) {
	errs, effects := make([]error, len(submissions)), make([]Effect, len(submissions))
	open := c.prepare(ctx, submissions, effects, errs)
	open = c.refuseLayout(ctx, open, errs)
	open = c.refuseCycles(ctx, open, errs)
	order := newLine(submissions, errs)
	open = slices.DeleteFunc(open, func(s *submitting) bool { return errs[s.index] != nil })
	for some := range slices.Chunk(open, submitChunk) {
		for i, r := range c.readSubmitted(ctx, some) {
			if r.Err != nil {
				return nil, nil, fmt.Errorf("preview task %q: %w", some[i].ID, r.Err)
			}
			some[i].wouldSubmit(r, errs)
		}
	}
	for next := order.Next(submitChunk); len(next) > 0; next = order.Next(submitChunk) {
		order.settle(next)
	}
	for i := range errs {
		if errs[i] != nil {
			effects[i] = ""
		}
	}
	return effects, errs, nil
}

// wouldSubmit finds out from what is stored what a submission would do.
func (s *submitting) wouldSubmit(r broker.Result, errs []error) {
	err, writes := s.refused(r.Reads, r.Revision)
	if errs[s.index] = err; writes {
		errs[s.index], *s.effect = nil, s.done()
	}
}
