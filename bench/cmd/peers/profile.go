package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/windlass-go/windlass/bench/internal/proc"
	"github.com/windlass-go/windlass/bench/internal/profile"
	"github.com/windlass-go/windlass/bench/internal/report"
)

// measureCommand is the hidden command that profile runs in a process of its own, so
// that what drives the workload has a profile, too.
const measureCommand = "measure"

// profileCommand runs one workload of ours with profiles of all its processes.
func profileCommand(ctx context.Context, args []string, out, errs io.Writer) error {
	var to string
	names, err := parse("peers profile", args, errs, func(f *flag.FlagSet) {
		f.StringVar(&to, "out", filepath.Join("out", "profile"), "folder for the profiles; what is in it is removed")
	})
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return fmt.Errorf("%w: profile takes one workload, and was given %d", errUsage, len(names))
	}
	if names, err = chosen(names); err != nil {
		return err
	}
	if to, err = filepath.Abs(to); err != nil {
		return err
	}
	to = filepath.Join(to, names[0])
	if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
		return err
	}
	cmd := proc.Self(measureCommand, names[0])
	cmd.Env = append(os.Environ(), profile.Variable+"="+to)
	child, err := proc.Start(cmd, func(line []byte) { fmt.Fprintln(out, string(line)) })
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
	}
	if err := child.Close(); err != nil {
		return err
	}
	if err := profile.Top(ctx, out, to); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nThe profiles and traces are in %s: go tool pprof -http=: FILE, go tool trace FILE\n", to)
	return err
}

// measure runs a workload with the sizes of a profile, until it is over or in ends.
func measure(ctx context.Context, in io.Reader, out io.Writer, name string) error {
	names, err := chosen([]string{name})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var reader sync.WaitGroup // it is left behind when all is measured, and the process ends
	reader.Go(func() {
		_, _ = io.Copy(io.Discard, in)
		stop(errors.New("it was interrupted"))
	})
	r, err := compare(ctx, profileSizes, names, func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) })
	if err != nil {
		return err
	}
	if len(r.LeftOut) > 0 {
		return fmt.Errorf("left out: %q", r.LeftOut)
	}
	return summary(out, r)
}

// summary prints the medians.
func summary(out io.Writer, r *report.Report) error {
	for _, w := range r.Workloads {
		for _, m := range w.Measures {
			if m.Detail {
				continue
			}
			if _, err := fmt.Fprintf(out, "%s: %s: %s\n", m.Side, m.Row, report.WithUnit(m.Median, m.Unit)); err != nil {
				return err
			}
		}
	}
	return nil
}
