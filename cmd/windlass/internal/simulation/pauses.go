package simulation

import (
	"context"
	"fmt"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/operate"
)

// pauseType sometimes pauses or resumes a type, in the storms that do so.
func (w *world) pauseType() {
	if !w.profile.pauses || w.pauses.IntN(8) > 0 {
		return
	}
	taskType := pick(w.pauses, "", "", jobTypes[0], jobTypes[len(jobTypes)-1])
	pauses := w.pauses.IntN(2) == 0
	err := w.attempt(func(ctx context.Context) error {
		if pauses {
			return operate.New(w.client).PauseType(ctx, taskType, "")
		}
		return operate.New(w.client).ResumeType(ctx, taskType)
	})
	if err == nil && pauses {
		w.count("type paused")
	} else if err == nil {
		w.count("type resumed")
	}
}

// resumeTypes ends the pauses of all types.
func (w *world) resumeTypes() {
	for _, taskType := range append([]string{""}, jobTypes...) {
		_ = operate.New(w.client).ResumeType(w.t.Context(), taskType) // it may not be paused, and is asked again
	}
}

// pausedStill reports a task that is paused because its type was (O09).
func (w *world) pausedStill() string {
	tasks, err := w.client.Tasks(w.t.Context(), windlass.Filter{Statuses: []windlass.Status{windlass.StatusPaused}})
	if err != nil {
		return err.Error()
	}
	for _, task := range tasks {
		if len(task.BlockedBy) > 0 {
			continue // no node holds it
		}
		detail, err := w.client.Task(w.t.Context(), task.ID)
		if err != nil {
			return err.Error()
		}
		if detail.Status == windlass.StatusPaused && detail.State.TypePaused {
			return fmt.Sprintf("O09: %q is paused because its type was", task.ID)
		}
	}
	return ""
}
