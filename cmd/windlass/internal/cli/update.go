package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

func (a *app) taskUpdateCommand() *cobra.Command {
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "update ID [flags] [-- COMMAND ARGUMENT...]",
		Short: "Change the properties or the settings of a live task",
		Long: `Change the properties or the settings of a live task. What is not named stays as it is;
its state and its errors stay, too. If the task runs, its handler is told of the new
properties, if it listens to that; any other is stopped, and the task runs again as it is
now. A change of its tags alone stops nothing. "task get" shows what a task has, and
"task retry" changes and runs one that has ended.

Arguments after -- are the new command of a task of type "exec".`,
		Example: `  windlass task update nightly --props '{"customer":8}'
  windlass task update import --priority 5 --retry-max 1m
  windlass task update nightly --remove tags,retry
  windlass task update hello -- echo "hello again"`,
		ValidArgsFunction: a.completeLive,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		if dash == -1 {
			dash = len(args)
		}
		if dash != 1 {
			return usagef("%s needs one ID; a command goes after --", cmd.CommandPath())
		}
		do, err := change.read(cmd.Flags().Changed, args[1:])
		if err != nil {
			return err
		}
		return a.withClient(cmd.Context(), func(c *windlass.Client) error {
			return a.update(cmd.Context(), c, withJobIDs(args[:1])[0], do)
		})
	}
	change.register(cmd)
	a.completeNames(cmd)
	return a.outputFlag(cmd)
}

// nulls is the merge patch that removes settings.
func nulls(settings []string) (map[string]json.RawMessage, error) {
	patch := map[string]json.RawMessage{}
	for _, name := range settings {
		if !slices.Contains(view.Settings(), name) {
			return nil, usagef("--remove %q: must be one of %q", name, view.Settings())
		}
		patch[name] = json.RawMessage("null")
	}
	return patch, nil
}

// setCommand replaces the command in the properties of an exec task.
func setCommand(s *windlass.Submission, command []string) error {
	if len(command) == 0 {
		return nil
	}
	if s.Spec.Type != exectask.Type {
		return usagef("the task %q is of type %q, and only one of type %q has a command", s.ID, s.Spec.Type, exectask.Type)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(s.Props, &fields); err != nil && len(s.Props) > 0 {
		return fmt.Errorf("the properties of task %q: %w", s.ID, err)
	}
	if fields == nil { // they were null
		fields = map[string]json.RawMessage{}
	}
	fields["command"], _ = json.Marshal(command) // strings can always be encoded
	encoded, err := view.EncodeJSON(fields, "")
	s.Props = bytes.TrimSpace(encoded)
	return err
}

// change makes those settings of a spec what was given that flags were given for.
func (f *specFlags) change(given view.Spec, s *windlass.Spec, changed func(flag string) bool) {
	var r windlass.Retry
	if s.Retry != nil {
		r = *s.Retry
	}
	retries := false
	for flag, set := range map[string]func(){
		"retry-errors": func() { r.Errors = f.retry.Errors },
		"retry-window": func() { r.Window = f.retry.Window },
		"retry-min":    func() { r.Min = f.retry.Min },
		"retry-max":    func() { r.Max = f.retry.Max },
		"retry-deaths": func() { r.Deaths = f.retry.Deaths },
	} {
		if changed(flag) {
			retries = true
			set()
		}
	}
	if retries {
		s.Retry = &r
	}
	for flag, set := range map[string]func(){
		"priority":   func() { s.Priority = given.Priority },
		"needs":      func() { s.Needs = given.Needs },
		"not-before": func() { s.NotBefore = given.NotBefore },
		"weight":     func() { s.Weight = given.Weight },
		"require":    func() { s.Require = given.Require },
		"prefer":     func() { s.Prefer = given.Prefer },
		"node":       func() { s.Node = given.Node },
		"group":      func() { s.Group = given.Group },
		"timeout":    func() { s.Timeout = given.Timeout },
		"on-failure": func() { s.OnFailure = given.OnFailure },
		"tag":        func() { s.Tags = given.Tags },
	} {
		if changed(flag) {
			set()
		}
	}
}

// update changes a task and says what has changed.
func (a *app) update(ctx context.Context, c *windlass.Client, id string, change func(*windlass.Submission) error) error {
	result, after, err := commands.Update(ctx, c, id, change)
	if err != nil {
		return err
	}
	warnings, _ := inspect.New(c).Warnings(ctx, []windlass.Submission{after}) // who cannot read them has been told of worse
	a.warn(warnings...)
	return a.print(result, func() table {
		if len(result.Changes) == 0 {
			return table{rows: [][]string{{id, "is that already"}}}
		}
		return changesTable([]view.Changed{result}, len(result.Changes))
	})
}

// changesTable has the first changes of tasks, on a line each.
func changesTable(all []view.Changed, most int) (t table) {
	n := 0
	for _, task := range all {
		for _, c := range task.Changes {
			if n++; n <= most {
				t.add(task.ID, c.String())
			}
		}
	}
	if n > most {
		t.add("and", fmt.Sprintf("%d more", n-most))
	}
	return t
}

func (a *app) taskApplyCommand() *cobra.Command {
	var file string
	var consent consent
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make live tasks what a file says: create or update them",
		Long: `Create the tasks of a file that do not exist, and change those that are live to what the
file says. The file is that of "task submit"; settings that it does not name get their
defaults. What is to change about live tasks is shown first. Tasks that run are told, or stopped and run
again as they are now. A task that has ended is left alone, unless its line says
"rerun":true. Tasks that the file does not name stay as they are.`,
		Example: `  windlass task apply -f tasks.jsonl --dry-run
  windlass task apply -f tasks.jsonl --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("%s needs -f FILE", cmd.CommandPath())
			}
			if err := consent.check(a); err != nil {
				return err
			}
			if file == "-" && !consent.yes && !consent.dryRun {
				return usagef("-f -: standard input has the tasks, so nobody can be asked: --yes is needed; --dry-run shows what would change")
			}
			tasks, err := a.readFile(file, "applied")
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error { return a.apply(cmd.Context(), c, tasks, consent) })
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with JSON objects, on a line each, or in an array; - for standard input")
	consent.register(cmd)
	return a.outputFlag(cmd)
}

// apply makes tasks what a file says, after a preview.
func (a *app) apply(ctx context.Context, c *windlass.Client, tasks []windlass.Submission, consent consent) error {
	preview, open, err := previewApply(ctx, c, tasks)
	if err != nil {
		return err
	}
	a.warn(preview.Warnings...)
	if preview.DryRun = consent.dryRun; preview.DryRun || len(open) == 0 {
		return a.applied(preview, nil)
	}
	if !consent.yes {
		if err := changesTable(preview.Changes, previewMax).write(a.err); err != nil {
			return err
		}
		question := fmt.Sprintf("Create %d, update %d and run %d again?", preview.Created, preview.Updated, preview.Requeued)
		if err := consent.ask(ctx, a, question); err != nil {
			return err
		}
	}
	result := view.Applied{Unchanged: preview.Unchanged, Ended: preview.Ended, Changes: preview.Changes, Warnings: preview.Warnings}
	bar := a.newProgress("applying", len(open))
	effects, errs := c.Enqueue(meter.With(ctx, bar.set), open)
	for i, effect := range effects {
		if errs[i] = count(&result, effect, errs[i]); errs[i] != nil {
			errs[i] = rerunnable(errs[i])
		}
	}
	bar.end()
	doubts, _ := inspect.New(c).Warnings(ctx, open) // who cannot read them has been told of worse
	a.warn(doubts...)
	result.Warnings = append(result.Warnings, doubts...)
	return errors.Join(a.applied(result, view.CausesFirst(errs)), ctx.Err())
}

// count counts one outcome, and returns the error of one that failed.
func count(result *view.Applied, effect windlass.Effect, err error) error {
	var finished *windlass.FinishedError
	switch {
	case errors.As(err, &finished) && finished.Same:
		result.Ended++
	case err != nil:
		return err
	case effect == windlass.EffectCreated:
		result.Created++
	case effect == windlass.EffectUpdated:
		result.Updated++
	case effect == windlass.EffectUnchanged:
		result.Unchanged++
	default:
		result.Requeued++
	}
	return nil
}

// previewBatch is how many tasks are read at once.
const previewBatch = 500

// previewApply returns what would become of tasks, and those about which there is
// something to do.
func previewApply(ctx context.Context, c *windlass.Client, tasks []windlass.Submission) (p view.Applied, open []windlass.Submission, err error) {
	p.Changes = []view.Changed{}
	failed := 0
	for batch := range slices.Chunk(tasks, previewBatch) {
		ids := make([]string, len(batch))
		for i, task := range batch {
			ids[i] = task.ID
		}
		now, errs := c.Submissions(ctx, ids)
		for i, task := range batch {
			task.Update = true
			var finished *windlass.FinishedError
			switch err := errs[i]; {
			case errors.Is(err, windlass.ErrNotFound):
				p.Created++
			case errors.As(err, &finished) && task.Rerun:
				p.Requeued++
			case errors.As(err, &finished):
				if p.Ended++; finished.State == statemachine.Failed {
					failed++
				}
				continue
			case err != nil:
				return p, nil, err
			default:
				changes := view.ChangesOf(now[i], task)
				if len(changes) == 0 {
					p.Unchanged++
					continue
				}
				p.Updated++
				p.Changes = append(p.Changes, view.Changed{ID: task.ID, Changes: changes})
			}
			open = append(open, task)
		}
	}
	if failed > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf(`%d task(s) that failed are left alone; a line with "rerun":true runs one again as it says`, failed))
	}
	return p, open, ctx.Err()
}

// applied prints what became of tasks, or would.
func (a *app) applied(r view.Applied, failed []error) error {
	r.Failed, r.Errors = len(failed), view.ErrorsShown(failed)
	err := a.print(r, func() table {
		var t table
		would := ""
		if r.DryRun {
			would, t = "would be ", changesTable(r.Changes, previewMax)
		}
		t.add(would+"created", strconv.Itoa(r.Created))
		t.add(would+"updated", strconv.Itoa(r.Updated))
		t.add(would+"run again", strconv.Itoa(r.Requeued))
		t.add("unchanged", strconv.Itoa(r.Unchanged))
		t.add("ended", strconv.Itoa(r.Ended))
		addFailures(&t, r.Failed, r.Errors)
		return t
	})
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d tasks were not applied; the first: %w", len(failed), failed[0]))
	}
	return err
}
