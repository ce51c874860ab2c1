package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// PauseType keeps the tasks of a type from running, on all nodes, until the type is resumed, or gives its pause another reason, of at most
// ReasonBytesMax. Nodes stop the handlers of its tasks, with the cause
// windlass.ErrTypePaused, and store that the tasks are paused; those that are submitted or wake up
// later are paused before they run. Their nodes keep them. A task that is leased
// (package lease) stays so, and no further one is handed out. The type need not
// be known.
//
// PauseType returns when the pause is stored. The handlers have returned once none of the
// type's tasks is windlass.StatusRunning. A node that is cut off from the broker stops its
// handlers when its session ends.
func (o *Operator) PauseType(ctx context.Context, taskType, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	return o.changePause(ctx, "pause", taskType, suspend(ctx, o.space.TypePause(taskType), reason))
}

// ResumeType ends the pause of a type: the tasks that are paused because of it run again,
// where they are. Those that were paused by themselves stay paused. It returns windlass.ErrNotFound
// if the type is not paused.
func (o *Operator) ResumeType(ctx context.Context, taskType string) error {
	return o.changePause(ctx, "resume", taskType, broker.Delete(o.space.TypePause(taskType)))
}

func (o *Operator) changePause(ctx context.Context, what, taskType string, op broker.Op) error {
	if taskType != "" {
		if err := keys.CheckType(taskType); err != nil {
			return err
		}
	}
	_, err := o.change(ctx, op, o.space.TypePauseAttempt(taskType), op.Key)
	switch {
	case errors.Is(err, windlass.ErrNotFound):
		return fmt.Errorf("%s type %q: it is not paused: %w", what, taskType, err)
	case err != nil:
		return fmt.Errorf("%s type %q: %w", what, taskType, err)
	}
	return nil
}

// PausedTypes returns the types that are paused. It reads no tasks.
func (o *Operator) PausedTypes(ctx context.Context) (map[string]windlass.Suspension, error) {
	nodes, err := mirror.ListNodes(ctx, o.broker, o.space)
	if err != nil {
		return nil, fmt.Errorf("list paused types: %w", err)
	}
	paused := map[string]windlass.Suspension{}
	for taskType, value := range nodes.Paused() {
		paused[taskType] = *windlass.ParseSuspension(value, true)
	}
	return paused, nil
}
