package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

// returned is the table at Handler.Run: for each value that Run returns, what becomes of the
// task, by the cause of the context's end.
var returned = []struct {
	name                                                       string
	value                                                      func() error
	none, released, timeout, commanded, killed, drain, resting string
}{
	{"nil", func() error { return nil }, "completed", "released", "retried", "paused", "killed", "released", "paused"},
	{"ErrDone", func() error { return windlass.ErrDone }, "completed", "completed", "completed", "completed", "killed", "completed", "completed"},
	{"ErrRelease", func() error { return windlass.ErrRelease }, "released", "released", "retried", "paused", "killed", "released", "paused"},
	{"Permanent", func() error { return windlass.Permanent(errors.New("x")) }, "failed", "released", "failed", "paused", "killed", "released", "paused"},
	{"another error", func() error { return errors.New("x") }, "retried", "released", "retried", "paused", "killed", "released", "paused"},
	{"a panic", func() error { panic("x") }, "retried", "released", "retried", "paused", "killed", "released", "paused"},
	{"Message", func() error {
		return windlass.Message(statemachine.SleepUntil(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)))
	}, "sleeping", "sleeping", "sleeping", "paused", "killed", "sleeping", "sleeping"},
}

func TestHandler_M30_M31_TheTableOfWhatRunReturnsHolds(t *testing.T) {
	for _, row := range returned {
		inFleet(t, func(t *testing.T, f *fleet) {
			returns := running(func(ctx context.Context, claim *windlass.Claim) error {
				if len(f.Runs(claim.ID())) > 1 {
					return untilStopped(ctx, claim)
				}
				if claim.ID() != "none" {
					<-ctx.Done()
				}
				return row.value()
			})
			f.node("n", returns)
			f.Advance(time.Second)
			for _, id := range []string{"none", "released", "timeout", "commanded", "killed", "drain", "resting"} {
				spec := windlass.Spec{}
				switch id {
				case "timeout":
					spec.Timeout = windlass.Duration(10 * time.Second)
				case "resting":
					spec.Type = "t"
				}
				f.Submit(windlass.Submission{ID: id, Spec: spec})
			}
			f.Advance(time.Second)
			f.send("n", "stop_task", `{"task":"released"}`)
			f.sendTask("commanded", statemachine.Pause)
			f.sendTask("killed", statemachine.Kill)
			f.must(operate.New(f.Client()).PauseType(t.Context(), "t", ""))
			f.Advance(time.Minute)
			f.send("n", "drain", `{}`)
			f.Advance(time.Second)
			f.node("other", returns)
			f.Advance(time.Minute)
			for id, want := range map[string]string{
				"none": row.none, "released": row.released, "timeout": row.timeout, "commanded": row.commanded, "killed": row.killed, "drain": row.drain, "resting": row.resting,
			} {
				if got := f.became(id); got != want {
					t.Errorf("%s returned, cause %s: %s, want %s", row.name, id, got, want)
				}
			}
		})
	}
}

// became describes the outcome of a task's first run. A second run does not end.
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
