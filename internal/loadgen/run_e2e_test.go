//go:build e2e

package loadgen

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// gone checks that nothing is left of a run.
func gone(t *testing.T, c Config) {
	t.Helper()
	left, _, err := broker.Collect(context.Background(), c.Broker, c.Namespace+"/")
	must(t, err)
	if len(left) > 0 {
		t.Errorf("%d keys are left, such as %s", len(left), left[0].Key)
	}
}

func (r *Report) find(t *testing.T, phase, name string) Figure {
	t.Helper()
	for _, f := range r.Figures {
		if f.Phase == phase && f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no figure %q of phase %s", name, phase)
	return Figure{}
}

func TestRun_AllPhasesAddUp(t *testing.T) {
	c := world(t)
	c.Progress = func(text string) { t.Log(text) }
	report, err := Run(t.Context(), c)
	must(t, err)
	gone(t, c)
	for _, f := range report.Figures {
		t.Logf("%-9s %-32s %12s  %24s  %s", f.Phase, f.Name, f.Text(), f.RawText(), f.RatioText())
		if f.Value < 0 && f.Unit != unitKilobytes {
			t.Errorf("%s: %s is %v", f.Phase, f.Name, f.Value)
		}
		if f.Unit == unitRate && f.Value == 0 {
			t.Errorf("%s: %s is zero", f.Phase, f.Name)
		}
	}
	for _, phase := range []string{PhaseSubmit, PhasePlace, PhaseFailover, PhaseDrain, PhaseJoin} {
		if n := report.find(t, phase, "tasks running").Value; n != 300 {
			t.Errorf("%s: %v of 300 tasks run", phase, n)
		}
	}
	for _, phase := range []string{PhaseFailover, PhaseDrain, PhaseJoin} {
		if f := report.find(t, phase, "tasks moved"); f.Value < *f.Raw || *f.Raw == 0 {
			t.Errorf("%s: %v tasks moved of %v", phase, f.Value, *f.Raw)
		}
	}
	if n := report.find(t, PhaseDrain, "tasks left behind").Value; n != 0 {
		t.Errorf("the drained node kept %v tasks", n)
	}
	if n := report.find(t, PhaseJoin, "difference between nodes").Value; n > 1 {
		t.Errorf("after a node joined the nodes differ by %v", n)
	}
	if f := report.find(t, PhasePlace, "placed"); f.Ratio == nil || *f.Ratio != f.Value / *f.Raw {
		t.Errorf("placed is %v of %v, and the ratio is %v", f.Value, *f.Raw, f.Ratio)
	}
	if n := len(report.Curves); n != 5 {
		t.Errorf("there are %d curves", n)
	}
	for _, curve := range report.Curves {
		if end := curve.Total[len(curve.Total)-1].Tasks; end != 300 {
			t.Errorf("the curve of %s ends with %d tasks", curve.Phase, end)
		}
	}
}

func TestRun_AnInterruptLeavesNothingBehind(t *testing.T) {
	c := world(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	c.Progress = func(text string) {
		if strings.Contains(text, "300 tasks run") {
			interrupt()
		}
	}
	report, err := Run(ctx, c)
	if err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	report.find(t, phaseRaw, limitClaims)
	gone(t, c)
}

func TestRun_ATimeoutSaysWhatWasWaitedFor(t *testing.T) {
	c := world(t)
	c.Timeout = time.Nanosecond
	_, err := Run(t.Context(), c)
	var timeout *TimeoutError
	if !errors.As(err, &timeout) || !strings.Contains(err.Error(), "not within 1ns: the broker to take raw transactions") {
		t.Errorf("the error is %v", err)
	}
	gone(t, c)
}

func TestRun_ANodeThatEndsByItselfEndsTheRun(t *testing.T) {
	c := world(t)
	c.Node = func(string) *exec.Cmd { return exec.Command("sh", "-c", "echo no such luck >&2; exit 3") }
	_, err := Run(t.Context(), c)
	want := "the process of node bench-"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "exit status 3: no such luck") {
		t.Errorf("the error is %v", err)
	}
	gone(t, c)
}
