package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/bench/internal/proc"
	"github.com/windlass-go/windlass/internal/loadgen"
)

// Windlass is the name by which this program is the command line of Windlass.
const Windlass = "windlass"

// Bench says what "windlass bench" is to measure.
type Bench struct {
	Endpoints  []string
	Phases     []string
	Tasks      int
	IdleFor    time.Duration
	SessionTTL time.Duration
	Timeout    time.Duration
}

// endMax bounds how long it may take to tidy up after an interrupt.
const endMax = 30 * time.Second

// Run runs "windlass bench" on an etcd.
func (b Bench) Run(ctx context.Context) (*loadgen.Report, error) {
	addresses := make([]string, len(b.Endpoints))
	for i, e := range b.Endpoints {
		addresses[i] = strings.TrimPrefix(e, "http://")
	}
	self := proc.Self()
	cmd := exec.CommandContext(ctx, self.Path)
	cmd.Args = append([]string{Windlass, "bench"}, b.Phases...)
	cmd.Args = append(cmd.Args, "--broker=etcd://"+strings.Join(addresses, ","), "--output=json", fmt.Sprint("--tasks=", b.Tasks),
		"--idle-for="+b.IdleFor.String(), "--session-ttl="+b.SessionTTL.String(), "--timeout="+b.Timeout.String())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endMax
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("windlass bench: %w: %s", err, lines[len(lines)-1])
	}
	return Parse(out.Bytes())
}

// Parse reads what "windlass bench" prints.
func Parse(text []byte) (*loadgen.Report, error) {
	var r loadgen.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("the output of windlass bench: %w", err)
	}
	if len(r.Figures) == 0 {
		return nil, fmt.Errorf("the output of windlass bench has no figures")
	}
	return &r, nil
}

// Find is a figure of a report.
func Find(r *loadgen.Report, phase, name string) (loadgen.Figure, error) {
	for _, f := range r.Figures {
		if f.Phase == phase && f.Name == name {
			return f, nil
		}
	}
	return loadgen.Figure{}, fmt.Errorf("windlass bench gave no figure %q of the phase %s", name, phase)
}
