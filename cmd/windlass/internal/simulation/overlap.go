package simulation

import (
	"time"

	"github.com/windlass-go/windlass/windlasstest"
)

// stretches returns the times during which a run may have made a step: all except those
// during which its process was suspended. The instant in which a suspended process
// resumes and its handler returns has no length.
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

// both returns how long two windows overlap, negative for a gap between them.
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

// overlap returns the longest overlap of two runs of a task, negative for the shortest
// gap, and these runs. known is true if any task had two runs.
func (w *world) overlap() (longest time.Duration, first, second windlasstest.Run, known bool) {
	now := time.Now()
	suspensions := w.suspensions()
	for _, id := range w.ran() {
		runs := w.runsOf(id)
		for i := 1; i < len(runs); i++ {
			// Runs start in order, so the neighbours suffice for the gap; a long run
			// may overlap more than one.
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

// suspensions returns the times during which processes were suspended, by name.
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
