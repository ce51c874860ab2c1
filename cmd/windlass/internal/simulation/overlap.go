package simulation

import (
	"time"

	"github.com/windlass-go/windlass/windlasstest"
)

// stretches are the times during which a run may have made a step: while its
// process was suspended it made none. The instant in which a suspended process
// goes on and its handler returns has no length.
func stretches(r windlasstest.Run, suspensions []window, now time.Time) (all []window) {
	to := r.Ended
	if to.IsZero() {
		to = now
	}
	from := r.Started
	for _, s := range suspensions {
		end := s.to
		if end.IsZero() {
			end = now
		}
		if !end.After(from) || !s.from.Before(to) {
			continue
		}
		if s.from.After(from) {
			all = append(all, window{from, s.from})
		}
		from = end
	}
	if from.Before(to) {
		all = append(all, window{from, to})
	}
	return all
}

// both is how long two windows have in common, negative for a gap between them.
func both(a, b window) time.Duration {
	from, to := a.from, a.to
	if b.from.After(from) {
		from = b.from
	}
	if b.to.Before(to) {
		to = b.to
	}
	return to.Sub(from)
}

// overlap is the longest time that two runs of a task had in common, negative
// for the shortest gap between two, and which those were. known tells that any
// task had two runs.
func (w *world) overlap() (longest time.Duration, first, second windlasstest.Run, known bool) {
	now := time.Now()
	suspensions := w.suspensions()
	for _, id := range w.ran() {
		runs := w.runsOf(id)
		for i := 1; i < len(runs); i++ {
			// Runs start in order, so that the neighbours suffice for the gap; an
			// old run that goes on for long meets more than one.
			for j := range i {
				if j < i-1 && !runs[j].Ended.IsZero() && !runs[j].Ended.After(runs[i].Started) {
					continue
				}
				for _, a := range stretches(runs[j], suspensions[runs[j].Node], now) {
					for _, b := range stretches(runs[i], suspensions[runs[i].Node], now) {
						if d := both(a, b); !known || d > longest {
							longest, first, second, known = d, runs[j], runs[i], true
						}
					}
				}
			}
		}
	}
	return longest, first, second, known
}

// suspensions are the times at which processes were suspended, by name.
func (w *world) suspensions() map[string][]window {
	all := map[string][]window{}
	for _, p := range w.processes {
		all[p.Name()] = append(all[p.Name()], p.suspensions...)
	}
	return all
}

// String prints the window.
func (w window) String() string {
	return w.from.Format("15:04:05.000") + "-" + w.to.Format("15:04:05.000")
}
