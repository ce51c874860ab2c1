package coordinator

import (
	"context"
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
