package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/bench/internal/elections"
	"github.com/windlass-go/windlass/bench/internal/fleet"
	"github.com/windlass-go/windlass/bench/internal/growth"
	"github.com/windlass-go/windlass/bench/internal/jobs"
	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
)

// workloads are all of them, in the order in which they are run.
var workloads = []string{jobs.Workload, elections.Workload, fleet.Workload, growth.Workload}

// comparison is one run.
type comparison struct {
	sizes
	workloads []string
	// dir is for the stores.
	dir      string
	progress func(format string, args ...any)
}

func runCommand(ctx context.Context, args []string, out, errs io.Writer) error {
	var quick, keep bool
	var to string
	names, err := parse("peers run", args, errs, func(f *flag.FlagSet) {
		f.BoolVar(&quick, "quick", false, "small numbers and few repetitions: a few minutes, and an indication only")
		f.BoolVar(&keep, "keep", false, "keep from the report that is in the folder what is not measured now")
		f.StringVar(&to, "out", "out", "folder for the report and the plots")
	})
	if err != nil {
		return err
	}
	if names, err = chosen(names); err != nil {
		return err
	}
	size := fullSizes
	if quick {
		size = quickSizes
	}
	var earlier *report.Report
	if keep {
		if earlier, err = readReport(to); err != nil {
			return err
		}
	}
	r, err := compare(ctx, size, names, func(format string, args ...any) { fmt.Fprintf(errs, format+"\n", args...) })
	if r == nil {
		return err
	}
	r.Quick = quick
	if earlier != nil {
		if kept := r.Keep(earlier); kept != nil { // the earlier one is worth more than what does not fit to it
			return errors.Join(err, kept, r.Markdown(out, headingLevel))
		}
	}
	r.Checks = append(r.Checks, checks(r)...)
	// What was measured before an interrupt is worth having.
	return errors.Join(err, write(r, to), r.Markdown(out, headingLevel))
}

// chosen are the workloads that were named, in the order in which they are run.
func chosen(names []string) ([]string, error) {
	for _, name := range names {
		if !slices.Contains(workloads, name) {
			return nil, fmt.Errorf("%w: workload %q: must be one of %s", errUsage, name, strings.Join(workloads, ", "))
		}
	}
	if len(names) == 0 {
		return workloads, nil
	}
	return slices.DeleteFunc(slices.Clone(workloads), func(name string) bool { return !slices.Contains(names, name) }), nil
}

// compare runs workloads and returns what was measured, also with an error.
func compare(ctx context.Context, size sizes, names []string, progress func(string, ...any)) (r *report.Report, err error) {
	dir, remove, err := servers.Folder()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	r = &report.Report{Date: time.Now().UTC().Truncate(time.Second), Machine: machine(dir), Versions: versions(), LeftOut: []string{}, Checks: []report.Check{}}
	began := time.Now()
	err = comparison{sizes: size, workloads: names, dir: dir, progress: progress}.run(ctx, r)
	r.Took = time.Since(began).Round(time.Second)
	return r, err
}

// run runs the workloads, each in a folder of its own, which is empty again before
// the next one.
func (c comparison) run(ctx context.Context, r *report.Report) error {
	for _, name := range c.workloads {
		dir := filepath.Join(c.dir, name)
		// Other users' servers have their data below it.
		if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
			return err
		}
		c.progress("%s: begins", name)
		err := c.workload(ctx, name, dir, r)
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c comparison) workload(ctx context.Context, name, dir string, r *report.Report) error {
	switch name {
	case jobs.Workload:
		config := c.jobs
		config.Dir, config.Progress = dir, c.progress
		return jobs.Run(ctx, config, r)
	case elections.Workload:
		config := c.elections
		config.Dir, config.Progress = dir, c.progress
		return elections.Run(ctx, config, r)
	case fleet.Workload:
		config := c.fleet
		config.Dir, config.Progress = dir, c.progress
		return fleet.Run(ctx, config, r)
	}
	config := c.growth
	config.Dir, config.Progress = dir, c.progress
	return growth.Run(ctx, config, r)
}
