package coordinator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-go/windlass/statemachine"
)

func TestSend_OnlyTheCommandThatCannotBeEncodedFails(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		w.put("/c/tasks/b", "")
		c, err := NewCommander(w.b, "c")
		if err != nil {
			t.Fatal(err)
		}
		sent := c.Send(context.Background(), []Sending{
			{ID: "a", Command: statemachine.SleepUntil(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))},
			{ID: "b", Command: statemachine.Command{Message: statemachine.Pause}},
		})
		if sent[0].Err == nil || sent[0].Revision != 0 || w.get("/c/commands/a") != "-" {
			t.Errorf("a year that JSON cannot encode: %v, and it was sent as %s", sent[0].Err, w.get("/c/commands/a"))
		}
		if sent[1].Err != nil || w.get("/c/commands/b") != `{"message":"pause"}` {
			t.Errorf("the other command: %v, and it was sent as %s", sent[1].Err, w.get("/c/commands/b"))
		}
	})
}

// Whoever looks at a task's output asks it for a checkpoint, and must not undo what others
// have told it.
func TestSend_ACheckpointDisplacesNoOtherCommand(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put("/c/tasks/a", "")
		w.put("/c/tasks/b/props", "{}")
		c, err := NewCommander(w.b, "c")
		if err != nil {
			t.Fatal(err)
		}
		send := func(id string, m statemachine.Message) Sent {
			return c.Send(context.Background(), []Sending{{ID: id, Command: statemachine.Command{Message: m}}})[0]
		}
		for _, id := range []string{"a", "b"} {
			first := send(id, statemachine.Checkpoint)
			if again := send(id, statemachine.Checkpoint); first.Err != nil || again.Err != nil || again.Revision != first.Revision {
				t.Errorf("%s: two checkpoints: %+v, %+v", id, first, again)
			}
			if kill := send(id, statemachine.Kill); kill.Err != nil {
				t.Errorf("%s: a kill instead of a checkpoint: %v", id, kill.Err)
			}
			if late := send(id, statemachine.Checkpoint); !errors.Is(late.Err, ErrSuperseded) || w.get("/c/commands/"+id) != `{"message":"kill"}` {
				t.Errorf("%s: a checkpoint after a kill: %v, and the command is %s", id, late.Err, w.get("/c/commands/"+id))
			}
		}
		if none := send("none", statemachine.Checkpoint); !errors.Is(none.Err, ErrGone) {
			t.Errorf("to no task: %v", none.Err)
		}
	})
}
