package simulation

import "github.com/windlass-go/windlass/statemachine"

// judge checks in the end everything that was written and that ran.
func (w *world) judge() {
	for _, text := range w.log.Violations() {
		w.fail("%s", text)
	}
	for _, key := range w.stage.outside {
		w.fail("I11: %s is outside of the namespace", key)
	}
	for id, token := range w.log.Live() {
		w.fail("V3: %q is held with token %d when all nodes have gone", id, token)
	}
	w.judgeProgress()
	w.judgeLost()
	w.judgeStates()
	w.judgeJobs()
	w.report.Seeds = 1
	w.report.History = w.log.Counts()
	w.report.Refused = w.effects.Refused() + w.progress.Refused()
	w.report.ByHand = w.profile.byHand
	longest, first, second, known := w.overlap()
	if !known {
		return
	}
	if w.profile.byHand {
		w.report.LongestOutside = &longest
		return
	}
	w.report.Longest = &longest
	if longest > 0 {
		w.fail("I3: two handlers of %q (%v) at once for %v: %v and %v; suspended were %v", first.Task, behaviourOf(first.Task),
			longest, first, second, w.suspensions())
	}
}

// judgeLost counts the tasks that were acknowledged and are lost (I5).
func (w *world) judgeLost() {
	for id := range w.expected {
		if exists, _ := w.log.Task(id); !exists && w.log.Ended(id) == "" {
			w.report.Lost++
			w.fail("I5: %q was acknowledged and is lost", id)
		}
	}
}

// judgeProgress checks that no step of a task was lost or made twice (V5).
func (w *world) judgeProgress() {
	for _, id := range w.cluster.Ran() {
		if e := w.progress.Entry(id); e.Writes > steps {
			w.fail("V5: %q made %d steps of %d", id, e.Writes, steps)
		}
	}
	for id := range w.expected {
		if behaviourOf(id) != stepwise {
			continue
		}
		if w.log.Ended(id) == statemachine.Completed && w.progress.Entry(id).Writes != steps {
			w.fail("V5: %q is completed after %d steps of %d", id, w.progress.Entry(id).Writes, steps)
		}
	}
}
