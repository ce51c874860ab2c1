package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) submitCommand() *cobra.Command {
	var s view.Submission
	var spec specFlags
	var file, props string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "submit ID [flags] [-- COMMAND ARGUMENT...] | submit -f FILE",
		Short: "Submit a task, or a file of tasks",
		Long: `Submit one task by its ID, or a file of JSON objects, on a line each, pretty-printed, or in an array:

  {"id":"a","type":"exec","props":{"command":["echo","hello"],"restart":"on-failure"},"priority":0,
   "needs":["b"],"not_before":"2026-01-02T15:04:05Z","rerun":false,
   "weight":1,"require":{"zone":"east"},"prefer":{"disk":"ssd"},"node":"","group":"",
   "timeout":"30m","retry":{"errors":3,"window":"4h","min":"1s","max":"10m"},
   "on_failure":"block","tags":{"tenant":"t7"}}

Only "id" is needed, and no field may be there twice. A file is checked as a whole
before anything is submitted. Its lines can be in any order: no task runs before what it
needs. If a task is refused, so is what needs it in the file.

Submitting a task or a file again is fine: what exists already, live or done, is counted
and left alone. A task of the same ID and different content is a conflict.

With --dry-run nothing is submitted: it says what would be, which nodes would claim how
many of the tasks, and why others would wait.

Arguments after -- are the command of a task of type "exec". When it fails it is not
run again, unless one of the flags --retry-… says how often it may.`,
		Example: `  windlass task submit hello -- echo "hello, world"
  windlass task submit nightly --type report --props '{"customer":7}'
  windlass task submit import --type import --timeout 30m --retry-errors 3 --retry-max 1m
  windlass task submit consume-t7 --type consume --tag tenant=t7 --tag team=billing
  windlass task submit -f tasks.jsonl
  windlass task submit -f tasks.jsonl --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			tasks, err := a.submissions(cmd, args, s, &spec, file, props)
			if err != nil {
				return err
			}
			if dryRun {
				return a.withClient(cmd.Context(), func(c *windlass.Client) error {
					return a.planSubmit(cmd.Context(), c, tasks)
				})
			}
			var tracer events.Tracer
			stopTracing, err := a.startTracing(cmd.Context(), a.logger(slog.LevelInfo, false), &tracer)
			if err != nil {
				return err
			}
			defer stopTracing()
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				return a.submit(cmd.Context(), c, tasks)
			}, windlass.WithTracer(tracer))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "file with JSON objects, on a line each, or in an array; - for standard input")
	flags.StringVar(&s.Type, "type", "", "type of the task, which names its handler")
	flags.StringVar(&props, "props", "", "properties of the task, as JSON")
	spec.register(cmd)
	a.completeNames(cmd)
	flags.BoolVar(&dryRun, "dry-run", false, "only say what would be submitted, and where it would run")
	flags.BoolVar(&s.Rerun, "rerun", false, "run a task afresh that has ended, with nothing of what it was; task retry keeps what is not named")
	return a.outputFlag(cmd)
}

// submissions reads the tasks from the file or the arguments, and validates them.
func (a *app) submissions(cmd *cobra.Command, args []string, s view.Submission, spec *specFlags, file, props string) ([]windlass.Submission, error) {
	if file != "" {
		if err := checkFileAlone(cmd, args, file); err != nil {
			return nil, err
		}
		return a.readFile(file, "submitted")
	}
	var err error
	if s.Spec, err = spec.line(cmd.Flags().Changed); err != nil {
		return nil, err
	}
	dash := cmd.ArgsLenAtDash()
	if dash == -1 {
		dash = len(args)
	}
	if dash != 1 {
		return nil, usagef("%s needs one ID, or -f FILE; a command goes after --", cmd.CommandPath())
	}
	s.ID = args[0]
	if command := args[1:]; len(command) > 0 {
		if props != "" || (s.Type != "" && s.Type != exectask.Type) {
			return nil, usagef("a command after -- excludes --props, and a --type other than %q", exectask.Type)
		}
		s.Type = exectask.Type
		run := map[string]any{"command": command}
		if retriesErrors(s.Retry) {
			run["restart"] = exectask.RestartOnFailure // or its first error is its last
		}
		encoded, _ := json.Marshal(run) // strings can always be encoded
		props = string(encoded)
	}
	s.Props = json.RawMessage(props)
	task := s.Task()
	return []windlass.Submission{task}, errors.Join(task.Validate(), checkExec(task))
}

// checkFileAlone refuses arguments and flags beside a file, which would be ignored.
func checkFileAlone(cmd *cobra.Command, args []string, file string) (err error) {
	if len(args) > 0 {
		return usagef("-f %s and the ID %q exclude each other", file, args[0])
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains([]string{"file", "output", "dry-run"}, f.Name) {
			err = usagef("-f %s and --%s exclude each other; it goes into the lines of the file", file, f.Name)
		}
	})
	return err
}

// retriesErrors reports whether a retry policy says anything about errors.
func retriesErrors(r *windlass.Retry) bool {
	return r != nil && *r != windlass.Retry{Deaths: r.Deaths}
}

// checkExec reports mistakes in the properties of a command now, and not on a node.
func checkExec(task windlass.Submission) error {
	if task.Spec.Type != exectask.Type {
		return nil
	}
	props, err := exectask.ParseProps(task.Props)
	if r := task.Spec.Retry; err == nil && retriesErrors(r) && r.Errors != 1 && props.Restart == exectask.RestartNever {
		err = &exectask.InputError{Field: "retry", Value: "set", Limit: `has no effect without "restart":"on-failure" in the props of a command, whose first error is its last`}
	}
	return err
}

func (a *app) readFile(name, done string) ([]windlass.Submission, error) {
	var tasks []windlass.Submission
	seen := map[string]int{}
	err := a.readObjects(name, done, func(line int, content []byte) error {
		var s view.Submission
		if err := decodeStrictly(content, &s); err != nil {
			return err
		}
		if seen[s.ID] > 0 {
			return fmt.Errorf("the ID %q is on line %d already", s.ID, seen[s.ID])
		}
		seen[s.ID] = line
		task := s.Task()
		tasks = append(tasks, task)
		return errors.Join(task.Validate(), checkExec(task))
	})
	if err != nil {
		return nil, err
	}
	if i, err := view.CheckNeeds(tasks); err != nil {
		return nil, usagef("%s:%d: %w; nothing was %s", name, seen[tasks[i].ID], err, done)
	}
	return tasks, nil
}

// submit sends tasks. Those that were submitted before, with the same content, count as done.
func (a *app) submit(ctx context.Context, c *windlass.Client, tasks []windlass.Submission) error {
	bar := a.newProgress("submitting", len(tasks))
	errs := c.SubmitAll(meter.With(ctx, bar.set), tasks)
	bar.end()
	sum, first := view.SubmittedOf(errs)
	if len(tasks) == 1 && first != nil {
		return rerunnable(first) // it says everything
	}
	sum.Warnings, _ = inspect.New(c).Warnings(ctx, tasks) // who cannot read them has been told of worse
	if len(tasks) == 1 && errors.Is(errs[0], windlass.ErrFinished) {
		sum.Warnings = append(sum.Warnings, errs[0].Error()+"; "+rerunHint)
	}
	a.warn(sum.Warnings...)
	err := a.print(sum, func() table {
		t := table{rows: [][]string{{"submitted", strconv.Itoa(sum.Submitted)}, {"existed already", strconv.Itoa(sum.Existed)}}}
		addFailures(&t, sum.Failed, sum.Errors)
		return t
	})
	if first != nil {
		err = errors.Join(err, fmt.Errorf("%d of %d tasks were not submitted; the first: %w", sum.Failed, len(tasks), rerunnable(first)))
	}
	return errors.Join(err, ctx.Err())
}

// rerunHint says how a task that has ended is run afresh.
const rerunHint = `--rerun on the command line, and "rerun":true in a file`

func rerunnable(err error) error {
	return withHint(err, windlass.ErrFinished, "Rerun is "+rerunHint+": nothing of what it was is kept. \"windlass task retry\" runs it again and keeps what is not named.")
}

// addFailures adds how much has failed, and the first errors.
func addFailures(t *table, failed int, errs []string) {
	if failed > 0 {
		t.add("failed", strconv.Itoa(failed))
	}
	for _, text := range errs {
		t.add("error", text)
	}
}
