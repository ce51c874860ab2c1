package windlass

import (
	"github.com/windlass-go/windlass/internal/life"
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
		case was && !is && r.record.TypePaused && r.phase.On(life.ResumeType) == life.Act:
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
	switch reaction := r.phase.On(life.PauseType); {
	case reaction == life.StopHandler:
		r.cause = ErrTypePaused
		in.halt(r, r.cause)
	case reaction == life.Act && r.record.State == statemachine.Runnable && !r.unreadable:
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
