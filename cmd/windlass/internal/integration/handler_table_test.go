package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/statemachine"
)

// returned are the rows of the table at Handler.Run: what Run returns, and what becomes of
// the task by why its context had ended, if it had.
var returned = []struct {
	name                                              string
	value                                             func() error
	none, released, timeout, commanded, killed, drain string
}{
	{"nil", func() error { return nil }, "completed", "released", "retried", "paused", "killed", "released"},
	{"ErrDone", func() error { return windlass.ErrDone }, "completed", "completed", "completed", "completed", "killed", "completed"},
	{"ErrRelease", func() error { return windlass.ErrRelease }, "released", "released", "retried", "paused", "killed", "released"},
	{"Permanent", func() error { return windlass.Permanent(errors.New("x")) }, "failed", "released", "failed", "paused", "killed", "released"},
	{"another error", func() error { return errors.New("x") }, "retried", "released", "retried", "paused", "killed", "released"},
	{"a panic", func() error { panic("x") }, "retried", "released", "retried", "paused", "killed", "released"},
	{"Message", func() error {
		return windlass.Message(statemachine.SleepUntil(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)))
	}, "sleeping", "sleeping", "sleeping", "paused", "killed", "sleeping"},
}

func TestHandler_M30_M31_TheTableOfWhatRunReturnsHolds(t *testing.T) {
	for _, row := range returned {
		inFleet(t, func(t *testing.T, f *fleet) {
			handler := windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
				if len(f.Runs(claim.ID())) > 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				if claim.ID() != "none" {
					<-ctx.Done()
				}
				return row.value()
			})
			configure := func(c *windlass.Config) { c.Handlers[windlass.AnyType] = handler }
			f.node("n", configure)
			f.Advance(time.Second)
			for _, id := range []string{"none", "released", "timeout", "commanded", "killed", "drain"} {
				spec := windlass.Spec{}
				if id == "timeout" {
					spec.Timeout = windlass.Duration(10 * time.Second)
				}
				f.Submit(windlass.Submission{ID: id, Spec: spec})
			}
			f.Advance(time.Second)
			f.send("n", "stop_task", `{"task":"released"}`)
			for id, message := range map[string]statemachine.Message{"commanded": statemachine.Pause, "killed": statemachine.Kill} {
				if _, err := f.Client().SendTask(t.Context(), id, statemachine.Command{Message: message}); err != nil {
					t.Fatal(err)
				}
			}
			f.Advance(time.Minute)
			f.send("n", "drain", `{}`)
			f.Advance(time.Second)
			f.node("other", configure)
			f.Advance(time.Minute)
			for id, want := range map[string]string{
				"none": row.none, "released": row.released, "timeout": row.timeout, "commanded": row.commanded, "killed": row.killed, "drain": row.drain,
			} {
				if got := f.became(id); got != want {
					t.Errorf("%s returned, cause %s: %s, want %s", row.name, id, got, want)
				}
			}
		})
	}
}

// became says what has become of a task whose second run does not end.
func (f *fleet) became(id string) string {
	f.t.Helper()
	d, err := f.Client().Task(f.t.Context(), id)
	switch {
	case err != nil:
		return err.Error()
	case len(d.Errors) > 0 && d.Status != windlass.StatusFailed:
		return "retried"
	case d.Status != windlass.StatusRunning:
		return string(d.Status)
	case len(f.Runs(id)) > 1:
		return "released"
	}
	return fmt.Sprintf("%s, after %d runs", d.Status, len(f.Runs(id)))
}
