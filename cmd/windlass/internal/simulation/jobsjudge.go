package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/windlasstest"
)

func typeOfJob(id string) string { return id[strings.LastIndex(id, "_")+1:] }

// begins judges the beginning of a run by its claim.
func (w *world) begins(r windlasstest.Run) {
	if w.profile.crowded || behaviourOf(r.Task) == job {
		time.Sleep(time.Nanosecond) // until the log has all that has happened by now
	}
	w.logMu.Lock()
	defer w.logMu.Unlock()
	if w.log.Skipping(r.Task, broker.Revision(r.Token)) {
		w.fail("Z11: %q runs under token %d, which is there to kill it", r.Task, r.Token)
	}
	w.log.Begins(r.Task, broker.Revision(r.Token))
}

// judgeJobs compares the stored jobs with the verdicts of their runs.
func (w *world) judgeJobs() {
	if w.jobs == nil {
		return
	}
	w.countN("job run again after its run", w.jobs.log.requeued)
	for _, text := range w.jobs.log.wrong {
		w.fail("%s", text)
	}
	for _, id := range w.jobs.ids {
		h := w.jobs.log.byID[id]
		if h == nil {
			h = &jobHistory{}
		}
		for _, n := range w.jobs.accepted[id] {
			if !h.submitted(n) {
				w.fail("Z10: submission %d of %q was acknowledged and is nowhere", n, id)
			}
		}
		// A new job may come to exist late, by an attempt before the refused one, if the
		// job that caused the refusal was deleted meanwhile.
		for _, n := range w.jobs.refused[id] {
			if h.waited(n) {
				w.fail("Z10: submission %d of %q was refused and took effect: %v", n, id, h.submissions)
			}
		}
		w.judgeTogether(id, h)
		w.judgeEnds(id, h)
		w.judgeLast(id, h)
		w.judgeRuns(id, h)
	}
}

// judgeTogether checks that what came in one call was stored after what it waits for (M11).
func (w *world) judgeTogether(id string, h *jobHistory) {
	for _, s := range h.submissions {
		for need, n := range w.jobs.together[s.n] {
			w.count("job stored after another of its call")
			if at := w.jobs.log.byID[need].at(n); at == 0 || at >= s.at {
				w.fail("M11: submission %d of %q is stored at revision %d, and that of %q, which it waits for, at %d", s.n, id, s.at, need, at)
			}
		}
	}
}

// judgeEnds checks that the stored states of a job are the verdicts of its runs (Z08).
func (w *world) judgeEnds(id string, h *jobHistory) {
	want := map[statemachine.State]say{statemachine.Completed: completes, statemachine.Failed: failsForGood}
	for _, end := range h.ended {
		v := want[end.state]
		if v == 0 {
			continue
		}
		if r := w.jobs.last(id, end.token); r == nil || r.verdict != v && !(v == failsForGood && (r.verdict == fails || r.verdict == panics)) {
			w.fail("Z08: revision %d: %q is %s with token %d, and its run was %v", end.at, id, end.state, end.token, r)
		}
		w.count("job " + string(end.state))
	}
	for _, end := range h.ended {
		switch {
		case end.state == statemachine.Killed && w.log.Skipping(id, end.token):
			w.count("job skipped")
		case w.log.Carrying(id, end.token):
			w.count("job killed while nobody held it")
		}
	}
	for _, r := range w.jobs.runs[id] {
		token := broker.Revision(r.Token)
		ended := slices.ContainsFunc(h.ended, func(end jobEnd) bool { return end.token == token && end.state == statemachine.Completed })
		if r.accepted && r.verdict == completes && !ended && !h.again[token] {
			w.fail("Z08: the completion of %v was acknowledged and is nowhere", r)
		}
	}
}

// judgeLast checks that a job has ended with the data of its last submission (Z10).
func (w *world) judgeLast(id string, h *jobHistory) {
	if len(h.submissions) == 0 {
		return
	}
	last := h.submissions[len(h.submissions)-1]
	exists, state := w.log.Task(id)
	switch {
	case last.deleted, exists, state == statemachine.Killed:
		return
	case !state.Terminal():
		w.report.Lost++
		w.fail("I5: job %q was submitted and is lost", id)
		return
	}
	end := h.ended[len(h.ended)-1]
	if r := w.jobs.last(id, end.token); r != nil && r.n != last.n {
		w.fail("Z10: %q has %s at revision %d with the data of submission %d, and was submitted as %+v: %v", id, end.state, end.at, r.n, last, h.submissions)
	}
}

// judgeRuns checks that no run begins under a claim that has ended its job (Z08), or
// that may only kill it (Z11).
func (w *world) judgeRuns(id string, h *jobHistory) {
	runs := w.jobs.runs[id]
	for i, r := range runs {
		if w.log.Skipping(id, broker.Revision(r.Token)) {
			w.fail("Z11: %v ran, and its claim was there to kill it", r)
		}
		if w.log.Carrying(id, broker.Revision(r.Token)) {
			w.fail("O06: %v ran, and its claim was there to carry out a command", r)
		}
		for _, before := range runs[:i] {
			if before.Token == r.Token && (before.verdict == completes || before.verdict == failsForGood) {
				w.fail("Z08: %v has ended it, and then there is %v", before, r)
			}
		}
	}
}

// last returns the last run of a job under a token, nil if there was none.
func (j *jobs) last(id string, token broker.Revision) *jobRun {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range slices.Backward(j.runs[id]) {
		if broker.Revision(r.Token) == token {
			return r
		}
	}
	return nil
}
