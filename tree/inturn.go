package tree

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/meter"
)

// QueueInTurn is like Queue for the lines of a file: a request that looks for jobs, that is
// one with Under or Cascade, finds those of the requests before it. The requests between two
// that look are queued together, so their order does not matter.
//
// It returns what it queued, an error for each job or request that failed, and one error if
// it has refused the call as a whole: for bad input, for jobs that wait for themselves, and
// for one that waits for a job of a later request behind one that looks.
func (t *Tree) QueueInTurn(ctx context.Context, requests ...Request) (queued []Queued, failed []error, err error) {
	turns, err := turnsOf(requests)
	if err != nil {
		return nil, nil, err
	}
	looks := 0
	for _, turn := range turns {
		if turn[0].looks() {
			looks++
		}
	}
	if looks > t.looksMax {
		return nil, nil, &windlass.BadInputError{Field: "jobs", Value: fmt.Sprintf("%d with a pattern or cascade", looks), Limit: fmt.Sprintf("must be at most %d in one call", t.looksMax)}
	}
	done := 0
	refused := map[string]bool{} // by ID
	for _, turn := range turns {
		some, wrong := split(turn, refused)
		failed = append(failed, wrong...)
		made, wrong, err := t.queue(meter.With(ctx, func(n int) { meter.Set(ctx, done+n) }), some, t.queueMax-len(queued))
		if err != nil {
			wrong = slices.Repeat([]error{err}, len(some))
		}
		queued, failed = append(queued, made...), append(failed, wrong...)
		there := make(map[string]bool, len(made))
		for _, q := range made {
			there[q.ID] = true
		}
		for _, l := range turn {
			if l.id != "" && !there[l.id] {
				refused[l.id] = true
			}
		}
		done += len(turn)
		meter.Set(ctx, done)
	}
	return queued, failed, nil
}

// split returns the requests of a turn that can be queued, and the errors of those that wait
// for a refused job of an earlier turn, or for one that does.
func split(turn []*lined, refused map[string]bool) (some []Request, failed []error) {
	ids := make([]string, len(turn))
	for i, l := range turn {
		ids[i] = l.id
	}
	line := depend.NewTogether(ids, func(i int) []string { return turn[i].waits })
	unmet := map[int]string{} // the need, by the index in the turn
	for i, l := range turn {
		if k := slices.IndexFunc(l.waits, func(need string) bool { return refused[need] }); k >= 0 {
			unmet[i] = l.waits[k]
			for _, r := range line.Refuse(i) {
				unmet[r.Index] = r.Need
			}
		}
	}
	some = make([]Request, 0, len(turn)-len(unmet))
	for i, l := range turn {
		if need, ok := unmet[i]; ok {
			failed = append(failed, fmt.Errorf("queue %s: %w: %q was not queued", l.what(), windlass.ErrUnmetNeed, need))
		} else {
			some = append(some, l.Request)
		}
	}
	return some, failed
}

// lined is a request in its turn.
type lined struct {
	plan
	turn int
	// id is that of its job, empty if it depends on the jobs that it finds.
	id string
	// waits are the tasks that its job waits for, as far as they are known.
	waits []string
}

// what names a request in an error.
func (l *lined) what() string {
	if l.id != "" {
		return string(pathOf(l.id))
	}
	return keys.JobSegment(l.Name, l.Type)
}

// looks reports whether it must find the jobs of the requests before it.
func (l *lined) looks() bool { return l.under != nil || l.Cascade }

// making is what a request may queue: one job, or jobs of a name and type below some others;
// with below, what is below these.
type making struct {
	id            string
	name, jobType string // no name for any
	below         bool
}

// makings returns what a request queues, or may queue.
func (l *lined) makings() []making {
	m := making{id: l.id}
	switch {
	case l.under != nil && l.NameOf != nil:
		m = making{jobType: l.Type}
	case l.under != nil:
		m = making{name: l.Name, jobType: l.Type}
	}
	if !l.Cascade {
		return []making{m}
	}
	return []making{m, {m.id, m.name, m.jobType, true}}
}

// firstTurn returns the first turn that queues a job, or may do so, given the first of each
// making; 0 if none does.
func firstTurn(id string, turns map[making]int) int {
	found, earliest := false, 0
	look := func(m making) {
		if turn, ok := turns[m]; ok && (!found || turn < earliest) {
			found, earliest = true, turn
		}
	}
	for _, at := range append(depend.Ancestors(id), id) {
		look(making{id: at, below: at != id})
		above := strings.LastIndex(at, depend.Separator)
		if name, jobType, ok := keys.ParseJobSegment(at[above+1:]); ok && above > 0 {
			look(making{name: name, jobType: jobType, below: at != id})
			look(making{jobType: jobType, below: at != id})
		}
	}
	return earliest
}

// lastTurnBelow returns the last turn that queues a job below one, or may do so; 0 if none
// does.
func lastTurnBelow(job string, turns map[making]int) (last int) {
	for m, turn := range turns {
		if m.id == "" || depend.IsBelow(m.id, job) {
			last = max(last, turn)
		}
	}
	return last
}

// turnsOf divides requests into those that are queued together. It refuses jobs that wait for
// themselves, and those that wait for one that is queued only behind a request that looks for
// jobs.
func turnsOf(requests []Request) (turns [][]*lined, err error) {
	waits, first := map[string][]string{}, map[making]int{}
	all := make([]lined, len(requests))
	for i, r := range requests {
		l := &all[i]
		if err := l.read(r); err != nil {
			return nil, err
		}
		if l.under == nil {
			made, err := l.submission(l.Parent)
			if err != nil {
				return nil, err
			}
			l.id = made.ID
		}
		l.waits = depend.Blockers(l.id, l.Spec.Needs)
		if i == 0 || l.looks() || all[i-1].looks() {
			turns = append(turns, nil)
		}
		l.turn = len(turns) - 1
		turns[l.turn] = append(turns[l.turn], l)
		for _, m := range l.makings() {
			if _, before := first[m]; !before {
				first[m] = l.turn
			}
		}
		if l.id != "" {
			waits[l.id] = append(waits[l.id], l.waits...)
		}
	}
	depend.AddTrees(waits)
	if path := depend.AnyCycle(waits); path != nil {
		return nil, &windlass.BadInputError{Field: "needs", Value: depend.Arrows(path), Limit: depend.NoWayBack}
	}
	for i := range all {
		for _, need := range all[i].waits {
			turn := firstTurn(need, first)
			if job, all := depend.Tree(need); all {
				turn = lastTurnBelow(job, first)
			}
			if all[i].turn < turn {
				return nil, &windlass.BadInputError{Field: "needs", Value: need, Limit: fmt.Sprintf(
					"%s waits for it, and it is queued later, behind a job that looks for others; put it first", all[i].what())}
			}
		}
	}
	return turns, nil
}
