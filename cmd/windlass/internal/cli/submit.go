package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/view"
)

// submitBatch is how many tasks are sent at once, between two updates of the
// progress.
const submitBatch = 500

func (a *app) submitCommand() *cobra.Command {
	var s view.Submission
	var spec specFlags
	var file, props string
	cmd := &cobra.Command{
		Use:   "submit ID [flags] [-- COMMAND ARGUMENT...] | submit -f FILE",
		Short: "Submit a task, or a file of tasks",
		Long: `Submit one task by its ID, or a file with one JSON object on each line:

  {"id":"a","type":"exec","props":{"command":["echo","hello"]},"priority":0,
   "needs":["b"],"not_before":"2026-01-02T15:04:05Z","rerun":false,
   "weight":1,"require":{"zone":"east"},"prefer":{"disk":"ssd"},"node":"","group":"",
   "timeout":"30m","retry":{"errors":3,"window":"4h","min":"1s","max":"10m"},
   "on_failure":"block"}

Only "id" is needed. A file is checked as a whole before anything is submitted.
Submitting it again is fine: what exists already, live or done, is counted and
left alone. A task of the same ID and different content is a conflict.

Arguments after -- are the command of a task of type "exec". When it fails it is not
run again, unless one of the flags --retry-… says how often it may.`,
		Example: `  windlass task submit hello -- echo "hello, world"
  windlass task submit nightly --type report --props '{"customer":7}'
  windlass task submit import --type import --timeout 30m --retry-errors 3 --retry-max 1m
  windlass task submit -f tasks.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			tasks, err := a.submissions(cmd, args, s, &spec, file, props)
			if err != nil {
				return err
			}
			var tracer windlass.Tracer
			stopTracing, err := a.startTracing(cmd.Context(), a.logger(false), &tracer)
			if err != nil {
				return err
			}
			defer stopTracing()
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				return a.submit(cmd.Context(), c, tasks, file != "")
			}, windlass.WithTracer(tracer))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "file with a JSON object on each line; - for standard input")
	flags.StringVar(&s.Type, "type", "", "type of the task, which names its handler")
	flags.StringVar(&props, "props", "", "properties of the task, as JSON")
	spec.register(cmd)
	flags.BoolVar(&s.Rerun, "rerun", false, "run a task afresh that has ended")
	return a.outputFlag(cmd)
}

// submissions reads what is to be submitted, from the file or the arguments,
// and checks what can be checked without the broker.
func (a *app) submissions(cmd *cobra.Command, args []string, s view.Submission, spec *specFlags, file, props string) ([]windlass.Submission, error) {
	if file != "" {
		if err := checkFileAlone(cmd, args, file); err != nil {
			return nil, err
		}
		return a.readFile(file)
	}
	var err error
	if s.Spec, err = spec.line(cmd.Flags()); err != nil {
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
		if s.Retry != nil {
			run["restart"] = exectask.RestartOnFailure // or its first error is its last
		}
		encoded, err := json.Marshal(run)
		if err != nil {
			return nil, usageError{err}
		}
		props = string(encoded)
	}
	s.Props = json.RawMessage(props)
	task := s.Task()
	return []windlass.Submission{task}, errors.Join(task.Validate(), checkExec(s.Type, s.Props))
}

// checkFileAlone refuses what a file says for itself: it would be ignored.
func checkFileAlone(cmd *cobra.Command, args []string, file string) (err error) {
	if len(args) > 0 {
		return usagef("-f %s and the ID %q exclude each other", file, args[0])
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Name != "file" && f.Name != "output" {
			err = usagef("-f %s and --%s exclude each other; it goes into the lines of the file", file, f.Name)
		}
	})
	return err
}

// checkExec finds mistakes in the properties of a command here, where they can
// be mended, rather than on a node.
func checkExec(taskType string, props json.RawMessage) error {
	if taskType != exectask.Type {
		return nil
	}
	_, err := exectask.ParseProps(props)
	return err
}

func (a *app) readFile(name string) ([]windlass.Submission, error) {
	var tasks []windlass.Submission
	seen := map[string]int{}
	err := a.readLines(name, "submitted", func(line int, content []byte) error {
		s, err := parseLine(content)
		switch {
		case err != nil:
			return err
		case seen[s.ID] > 0:
			return fmt.Errorf("the ID %q is on line %d already", s.ID, seen[s.ID])
		}
		seen[s.ID] = line
		tasks = append(tasks, s.Task())
		return nil
	})
	return tasks, err
}

func parseLine(line []byte) (view.Submission, error) {
	var s view.Submission
	if err := decodeStrictly(line, &s); err != nil {
		return s, err
	}
	task := s.Task()
	return s, errors.Join(task.Validate(), checkExec(s.Type, task.Props))
}

// submit sends tasks. With again, those that were submitted before count as
// done; a single task that is named on the command line is a conflict then.
func (a *app) submit(ctx context.Context, c *windlass.Client, tasks []windlass.Submission, again bool) error {
	sum := view.Submitted{Errors: []string{}}
	var failed error
	bar := a.newProgress("submitting", len(tasks))
	for start := 0; start < len(tasks) && ctx.Err() == nil; start += submitBatch {
		batch := tasks[start:min(start+submitBatch, len(tasks))]
		for _, err := range c.SubmitAll(ctx, batch) {
			switch {
			case err == nil:
				sum.Submitted++
			case again && windlass.AlreadySubmitted(err):
				sum.Existed++
			default:
				sum.Failed++
				failed = keepFirst(failed, err)
				if len(sum.Errors) < view.ErrorsShownMax {
					sum.Errors = append(sum.Errors, err.Error())
				}
			}
		}
		bar.set(start + len(batch))
	}
	bar.end()
	if len(tasks) == 1 && failed != nil {
		return rerunnable(failed) // it says everything
	}
	err := a.print(sum, func() table {
		t := table{rows: [][]string{{"submitted", strconv.Itoa(sum.Submitted)}, {"existed already", strconv.Itoa(sum.Existed)}}}
		if sum.Failed > 0 {
			t.rows = append(t.rows, []string{"failed", strconv.Itoa(sum.Failed)})
		}
		for _, e := range sum.Errors {
			t.rows = append(t.rows, []string{"error", e})
		}
		return t
	})
	if failed != nil {
		failed = fmt.Errorf("%d of %d tasks were not submitted; the first: %w", sum.Failed, len(tasks), rerunnable(failed))
	}
	return errors.Join(err, failed, ctx.Err())
}

// rerunnable says what to do about a task that has ended.
func rerunnable(err error) error {
	if errors.Is(err, windlass.ErrFinished) {
		return hintedError{err, `Rerun is --rerun on the command line, and "rerun":true in a file.`}
	}
	return err
}

func keepFirst(first, next error) error {
	if first != nil {
		return first
	}
	return next
}
