package doctor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// failuresMany is how many errors of a task that is run again are worth a look,
	// lossesMany how many claims that were lost within repeatedWithin.
	failuresMany   = 5
	lossesMany     = 5
	repeatedWithin = time.Hour
	// errorShown limits the shown bytes of an error.
	errorShown = 120
)

// noteFailures records a task that keeps failing and is run again, and counts what has failed for good.
func (s *snapshot) noteFailures(id string, r *statemachine.Record) {
	if len(r.Errors) == 0 {
		return
	}
	last := r.Errors[len(r.Errors)-1]
	switch lately := time.Since(last.Timestamp) < repeatedWithin; {
	case lately && r.State == statemachine.Failed:
		s.failed++
	case lately && !r.State.Terminal() && r.Failures >= failuresMany:
		s.failing[id] = fmt.Sprintf("%d error(s), the last: %s", r.Failures, shorten.Line(last.Error, errorShown))
	}
}

// noteRestarts records a task whose handler starts again and again what it runs.
func (s *snapshot) noteRestarts(id string, r *statemachine.Restarts) {
	// Without a node that records more, it has been over for a while.
	if r != nil && r.Looping() && time.Since(r.LastAt) < repeatedWithin {
		s.looping[id] = fmt.Sprintf("%d restart(s) in a row, the last after: %s", r.InARow, shorten.Line(r.LastEnd, errorShown))
	}
}

// noteLosses records a task whose claims are lost again and again. Moves, restarts and drains of
// nodes interrupt tasks as well, and are no defect.
func (s *snapshot) noteLosses(id string, h *statemachine.History) {
	n, nodes := 0, map[string]bool{}
	for _, e := range h.Entries {
		if e.Event == statemachine.EventLost && e.Interruption && time.Since(e.At) < repeatedWithin {
			n++
			nodes[e.Node] = true
		}
	}
	if n >= lossesMany {
		s.lost[id] = fmt.Sprintf("%d times, on %d node(s)", n, len(nodes))
	}
}

// checkRuns looks for live tasks that run again and again and get nowhere.
func (s *snapshot) checkRuns() []Check {
	var n notes
	for _, id := range slices.Sorted(maps.Keys(s.failing)) {
		if s.tasks.Get(id) != nil {
			n.add(Warning, "task(s) that keep failing and are run again", `"windlass task get" has their errors; mend what they do, or pause them`,
				id+": "+s.failing[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.looping)) {
		if s.tasks.Get(id) != nil {
			n.add(Warning, "task(s) whose command keeps ending and is started again", `"windlass task get" has its last end and "windlass task logs" its output; mend it, or pause them`,
				id+": "+s.looping[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.lost)) {
		if s.tasks.Get(id) != nil {
			n.add(Warning, "task(s) that lost their nodes repeatedly within the last hour", `"windlass node deaths" has those that died, and "windlass task history" where each task ran`,
				id+": "+s.lost[id])
		}
	}
	healthy := "none keeps failing or losing its node"
	if s.failed > 0 { // which may be as it should be
		healthy += fmt.Sprintf(`; %d failed for good within the last hour, which "windlass task failures" groups`, s.failed)
	}
	return n.checks(CheckRuns, healthy)
}
