package windlass

import (
	"github.com/windlass-go/windlass/statemachine"
)

// checkPauses follows the pauses of types.
func (in *incarnation) checkPauses() {
	if in.stage != stageWorking || in.nodes.Revision() == 0 || !in.nodes.PausesChanged() {
		return
	}
	before := in.paused
	in.paused = map[string]bool{}
	for taskType := range in.nodes.Paused() {
		in.paused[taskType] = true
	}
	held := map[string]int{}
	for _, r := range in.runs {
		taskType := r.class().Type
		held[taskType]++
		switch was, is := before[taskType], in.paused[taskType]; {
		case is && !was:
			in.pauseRun(r)
		case was && !is && r.phase == phaseParked && r.record.TypePaused:
			in.awake(r)
		}
	}
	for taskType := range in.paused {
		if !before[taskType] {
			in.events.TypePaused(taskType, true, held[taskType])
		}
	}
	for taskType := range before {
		if !in.paused[taskType] {
			in.events.TypePaused(taskType, false, held[taskType])
		}
	}
}

// pauseRun stops the handler of a task whose type is paused. A run that is about to start
// one is paused then.
func (in *incarnation) pauseRun(r *run) {
	switch {
	case r.phase == phaseRunning:
		in.stopRun(r.claim.id, ErrTypePaused)
	case r.phase == phaseParked && r.record.State == statemachine.Runnable && !r.unreadable:
		in.parked.remove(r)
		in.rest(r)
	}
}

// rest continues a run whose handler is not to run because its type is paused, or was.
func (in *incarnation) rest(r *run) {
	if in.paused[r.class().Type] {
		in.awake(r)
	} else {
		in.resume(r)
	}
}

// changesNothing reports whether a message that a handler returns leaves its task as it
// is.
func changesNothing(m statemachine.Message) bool {
	return m == statemachine.Release || m == statemachine.Run || m == statemachine.Checkpoint
}
