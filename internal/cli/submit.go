package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/exectask"
)

// submission is one line of a file of tasks. Its JSON is stable.
type submission struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Props     json.RawMessage `json:"props"`
	Priority  int             `json:"priority"`
	NotBefore time.Time       `json:"not_before"`
	Needs     []string        `json:"needs"`
	Rerun     bool            `json:"rerun"`

	Weight  int               `json:"weight"`
	Require map[string]string `json:"require"`
	Prefer  map[string]string `json:"prefer"`
	Node    string            `json:"node"`
	Group   string            `json:"group"`

	Timeout windlass.Duration `json:"timeout"`
	Retry   *windlass.Retry   `json:"retry"`
}

func (s submission) submission() windlass.Submission {
	return windlass.Submission{
		ID: s.ID, Props: s.Props, Rerun: s.Rerun,
		Spec: windlass.Spec{
			Type: s.Type, Priority: s.Priority, NotBefore: s.NotBefore, Needs: s.Needs,
			Weight: s.Weight, Require: s.Require, Prefer: s.Prefer, Node: s.Node, Group: s.Group,
			Timeout: s.Timeout, Retry: s.Retry,
		},
	}
}

// Limits of a file of tasks.
const (
	lineBytesMax = 1 << 20
	linesMax     = 1_000_000
)

// submitBatch is how many tasks are sent at once, between two updates of the
// progress.
const submitBatch = 500

func (a *app) submitCommand() *cobra.Command {
	var s submission
	var retry retryFlags
	var file, props, notBefore string
	cmd := &cobra.Command{
		Use:   "submit ID [flags] [-- COMMAND ARGUMENT...] | submit -f FILE",
		Short: "Submit a task, or a file of tasks",
		Long: `Submit one task by its ID, or a file with one JSON object on each line:

  {"id":"a","type":"exec","props":{"command":["echo","hello"]},"priority":0,
   "needs":["b"],"not_before":"2026-01-02T15:04:05Z","rerun":false,
   "weight":1,"require":{"zone":"east"},"prefer":{"disk":"ssd"},"node":"","group":"",
   "timeout":"30m","retry":{"errors":3,"window":"4h","min":"1s","max":"10m"}}

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
			s.Retry = retry.retry(cmd.Flags())
			tasks, err := a.submissions(cmd, args, s, file, props, notBefore)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error { return a.submit(cmd.Context(), c, tasks, file != "") })
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "file with a JSON object on each line; - for standard input")
	flags.StringVar(&s.Type, "type", "", "type of the task, which names its handler")
	flags.StringVar(&props, "props", "", "properties of the task, as JSON")
	flags.IntVar(&s.Priority, "priority", 0, "higher is claimed first, from -1000 to 1000")
	flags.StringSliceVar(&s.Needs, "needs", nil, "tasks that must be done before this one starts")
	flags.StringVar(&notBefore, "not-before", "", "earliest time to start: RFC 3339, or a duration from now")
	flags.IntVar(&s.Weight, "weight", 0, "how much of a node's share and capacity it takes, 1 to 1000; default 1")
	flags.StringToStringVar(&s.Require, "require", nil, "label that a node must have, as key=value; zone=Z for its zone; repeatable")
	flags.StringToStringVar(&s.Prefer, "prefer", nil, "label that a node had better have, as key=value; repeatable")
	flags.StringVar(&s.Node, "node", "", "the only node that may run it")
	flags.StringVar(&s.Group, "group", "", "tasks of one group go to different zones and nodes, as far as there are enough")
	flags.DurationVar((*time.Duration)(&s.Timeout), "timeout", 0, "bound on each run, which is stopped then and counts as an error; 0 for none")
	retry.register(flags)
	flags.BoolVar(&s.Rerun, "rerun", false, "run a task afresh that has ended")
	return a.outputFlag(cmd)
}

// submissions reads what is to be submitted, from the file or the arguments,
// and checks what can be checked without the broker.
func (a *app) submissions(cmd *cobra.Command, args []string, s submission, file, props, notBefore string) ([]windlass.Submission, error) {
	if file != "" {
		if err := checkFileAlone(cmd, args, file); err != nil {
			return nil, err
		}
		return a.readFile(file)
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
	var err error
	if s.NotBefore, err = parseTime(notBefore); err != nil {
		return nil, usagef("--not-before %q: %w", notBefore, err)
	}
	task := s.submission()
	return []windlass.Submission{task}, errors.Join(task.Validate(), checkExec(s))
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

func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d, durationErr := time.ParseDuration(text)
		if durationErr != nil {
			return time.Time{}, errors.New("must be like 2026-01-02T15:04:05Z or 90m")
		}
		at = time.Now().Add(d)
	}
	if at.Before(time.Now()) {
		return time.Time{}, errors.New("is in the past")
	}
	return at.UTC(), nil
}

// checkExec finds mistakes in the properties of a command here, where they can
// be mended, rather than on a node.
func checkExec(s submission) error {
	if s.Type != exectask.Type {
		return nil
	}
	_, err := exectask.ParseProps(s.Props)
	return err
}

func (a *app) readFile(name string) ([]windlass.Submission, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer f.Close() // it was only read
		in = f
	}
	var tasks []windlass.Submission
	seen := map[string]int{}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, lineBytesMax)
	line := 0
	for scanner.Scan() {
		line++
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		s, err := parseLine(scanner.Bytes())
		if err == nil && seen[s.ID] > 0 {
			err = fmt.Errorf("the ID %q is on line %d already", s.ID, seen[s.ID])
		}
		if err == nil && len(tasks) == linesMax {
			err = fmt.Errorf("the file has more than %d tasks", linesMax)
		}
		if err != nil {
			return nil, usagef("%s:%d: %w; nothing was submitted", name, line, err)
		}
		seen[s.ID] = line
		tasks = append(tasks, s.submission())
	}
	if err := scanner.Err(); err != nil {
		return nil, usagef("%s:%d: %w (a line may have %d bytes); nothing was submitted", name, line+1, err, lineBytesMax)
	}
	return tasks, nil
}

func parseLine(line []byte) (submission, error) {
	var s submission
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("there is more than one JSON object on the line")
	}
	if bytes.Equal(s.Props, []byte("null")) {
		s.Props = nil
	}
	return s, errors.Join(s.submission().Validate(), checkExec(s))
}

// submitted is what became of a submission. Its JSON is stable.
type submitted struct {
	Submitted int      `json:"submitted"`
	Existed   int      `json:"existed"`
	Failed    int      `json:"failed"`
	Errors    []string `json:"errors"`
}

// submit sends tasks. With again, those that were submitted before count as
// done; a single task that is named on the command line is a conflict then.
func (a *app) submit(ctx context.Context, c *windlass.Client, tasks []windlass.Submission, again bool) error {
	sum := submitted{Errors: []string{}}
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
				if len(sum.Errors) < errorsShownMax {
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

// errorsShownMax bounds the errors that a summary lists.
const errorsShownMax = 10

func keepFirst(first, next error) error {
	if first != nil {
		return first
	}
	return next
}
