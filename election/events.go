package election

import (
	"context"
	"iter"
)

// Events are called about one election, one at a time and in order, and never with a
// lock held. The goroutine that does the election's work calls them, so they must not
// wait for Stop or Resign, or for the end of Run. Another candidate can lead before
// they have returned. Any may be nil.
type Events struct {
	// Elected is called when a term begins.
	Elected func(Term)
	// Unelected is called once when it ends, whatever the reason.
	Unelected func(term Term, cause error)
	// Leader is called within 5 s when somebody else leads, which may be this candidate. Who sets it
	// follows all entries of the election while it is third in line or later; that costs each such
	// candidate an event for each change, and others nothing.
	Leader func(name string)
	// Error reports an error that is being handled: the next attempt follows.
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

// Change is the state of an election on this member.
type Change struct {
	// Running is the result of IsRunning.
	Running bool
	// Term is this candidate's term, zero while it does not lead.
	Term Term
	// Leader is the result of CurrentLeader.
	Leader string
}

// Changes yields the state of the election, and then again whenever it has changed,
// until ctx ends. A slow caller misses states that did not last.
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
