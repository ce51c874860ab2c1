package election

import (
	"context"
	"iter"
)

// Events are called about one election, one at a time and in order, and never
// with a lock held. They are called by the goroutine that does the election's
// work, so they must not wait for Stop or Resign, or for the end of Run; and that
// they return is not waited for before another one can lead. Any may be nil.
type Events struct {
	// Elected begins a term.
	Elected func(Term)
	// Unelected ends it, once, whatever the reason.
	Unelected func(term Term, cause error)
	// Leader is called when another leader becomes known, be it this candidate.
	Leader func(name string)
	// Error tells of trouble that is being dealt with: the next attempt follows.
	Error func(error)
}

func (e Events) withDefaults() Events {
	if e.Elected == nil {
		e.Elected = func(Term) {}
	}
	if e.Unelected == nil {
		e.Unelected = func(Term, error) {}
	}
	if e.Leader == nil {
		e.Leader = func(string) {}
	}
	if e.Error == nil {
		e.Error = func(error) {}
	}
	return e
}

// Change is how an election stands here.
type Change struct {
	// Running is what IsRunning says.
	Running bool
	// Term is that of this candidate, zero while it does not lead.
	Term Term
	// Leader is what CurrentLeader says.
	Leader string
}

// Changes yields how the election stands, and then whenever that has changed,
// until ctx ends. A caller that is slow misses what did not last.
func (e *Election) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for last, first := (Change{}), true; ; first = false {
			e.mu.Lock()
			now, changed := Change{Running: e.isRunning(), Term: e.leading(), Leader: e.leader}, e.changed
			e.mu.Unlock()
			if (first || now != last) && !yield(now) {
				return
			}
			last = now
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}
