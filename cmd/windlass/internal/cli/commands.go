package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// order is what a command to tasks says.
type order struct {
	message statemachine.Message
	// until and pause are those of sleep: the text of a time, or a duration.
	until string
	pause time.Duration
}

// command is what is sent. A duration counts from here, after all questions.
func (o order) command() (statemachine.Command, error) {
	switch {
	case o.message != statemachine.Sleep:
		return statemachine.Command{Message: o.message}, nil
	case o.until == "":
		return statemachine.SleepUntil(time.Now().Add(o.pause)), nil
	}
	at, err := time.Parse(time.RFC3339, o.until)
	if err != nil {
		return statemachine.Command{}, usagef("--until %q: must be like 2026-01-02T15:04:05Z", o.until)
	}
	return statemachine.SleepUntil(at), nil
}

// sendFlags are those of every command to tasks.
type sendFlags struct {
	order     order
	selection selection
	consent   consent
	wait      bool
	timeout   time.Duration
}

// waitDefault is how long a command waits for what it is told to, unless told.
const waitDefault = time.Minute

// The commands to tasks.
func (a *app) runCommand() *cobra.Command {
	return a.sendCommand(sendFlags{order: order{message: statemachine.Run}}, &cobra.Command{
		Use: "run", Short: "Wake up tasks that sleep or are paused",
		Long: `Wake up tasks that sleep, are paused or wait after an error. On one that can run
already it changes nothing.`,
		Example: `  windlass task run nightly --wait
  windlass task run --status paused --type report --dry-run`,
	})
}

func (a *app) pauseCommand() *cobra.Command {
	return a.sendCommand(sendFlags{order: order{message: statemachine.Pause}}, &cobra.Command{
		Use: "pause", Short: "Stop tasks until they are told to run",
		Long: `Stop tasks until "task run". A handler that runs is told to stop; a command of an
exec task gets SIGTERM, and SIGKILL later.`,
		Example: `  windlass task pause nightly --wait
  windlass task pause --type report --yes`,
	})
}

func (a *app) releaseCommand() *cobra.Command {
	return a.sendCommand(sendFlags{order: order{message: statemachine.Release}}, &cobra.Command{
		Use: "release", Short: "Make the nodes give tasks back; others may take them",
		Long:    `Make the nodes that hold the tasks give them back. Their state stays as it is.`,
		Example: `  windlass task release import-7`,
	})
}

func (a *app) killCommand() *cobra.Command {
	return a.sendCommand(sendFlags{order: order{message: statemachine.Kill}}, &cobra.Command{
		Use: "kill", Short: "End tasks for good",
		Long: `End tasks for good: they are stopped, and kept as killed. "task delete" removes
them without a trace, and "task submit --rerun" runs a killed one afresh.`,
		Example: `  windlass task kill import-7 --wait
  windlass task kill --id-prefix import- --dry-run
  windlass task kill --id-prefix import- --yes --wait --timeout 5m`,
	})
}

func (a *app) checkpointCommand() *cobra.Command {
	return a.sendCommand(sendFlags{order: order{message: statemachine.Checkpoint}}, &cobra.Command{
		Use: "checkpoint", Short: "Ask handlers that listen to save their progress",
		Long: `Ask the handlers of tasks to save their progress now. One that does not listen to
commands, such as that of exec tasks, is not disturbed.`,
		Example: `  windlass task checkpoint --type import --yes`,
	})
}

func (a *app) sleepCommand() *cobra.Command {
	return a.sendCommand(sendFlags{order: order{message: statemachine.Sleep}}, &cobra.Command{
		Use: "sleep", Short: "Stop tasks until a time",
		Long: `Stop tasks until a time; then they run again. "task run" wakes them up before.`,
		Example: `  windlass task sleep nightly --for 2h
  windlass task sleep nightly --until 2030-01-02T15:04:05Z --wait`,
	})
}

// sendCommand completes a command that sends an order to tasks.
func (a *app) sendCommand(f sendFlags, cmd *cobra.Command) *cobra.Command {
	cmd.Long += `

The tasks are named by their IDs, or selected by --type, --status and --id-prefix
among those that have not ended. Whoever holds a task carries the command out, or
whoever takes it next. It waits for as long as the task does; a later one takes its
place.`
	cmd.Use += " ID... | " + cmd.Use + " --type T --status S --id-prefix P"
	cmd.ValidArgsFunction = a.completeLive
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := a.checkSend(cmd, &f, args)
		if err != nil {
			return err
		}
		return a.withClient(cmd.Context(), func(c *windlass.Client) error {
			return a.sendTo(cmd.Context(), c, f, ids)
		})
	}
	flags := cmd.Flags()
	if f.order.message == statemachine.Sleep {
		flags.StringVar(&f.order.until, "until", "", "when to wake up, as RFC 3339")
		flags.DurationVar(&f.order.pause, "for", 0, "how long to sleep, from now on")
	}
	flags.BoolVar(&f.wait, "wait", false, "return when the commands were carried out")
	flags.DurationVar(&f.timeout, "timeout", waitDefault, "how long to wait for that, with --wait")
	f.selection.register(cmd, view.Live)
	f.consent.register(cmd)
	return a.outputFlag(cmd)
}

// checkSend finds what is wrong with the command line before anything is done,
// and returns the IDs that were given, each once: a second command to the same
// task would take the place of the first.
func (a *app) checkSend(cmd *cobra.Command, f *sendFlags, args []string) (ids []string, err error) {
	flags := cmd.Flags()
	selects := f.selection.given(cmd)
	switch {
	case selects && len(args) > 0:
		return nil, usagef("the ID %q and --type, --status and --id-prefix exclude each other", args[0])
	case !selects && len(args) == 0:
		return nil, usagef("%s needs at least one ID, or --type, --status or --id-prefix", cmd.CommandPath())
	case f.order.message == statemachine.Sleep && flags.Changed("until") == flags.Changed("for"):
		return nil, usagef("%s needs --until or --for, and not both", cmd.CommandPath())
	case flags.Changed("for") && f.order.pause <= 0:
		return nil, usagef("--for %v: must be positive", f.order.pause)
	case flags.Changed("timeout") && !f.wait:
		return nil, usagef("--timeout goes with --wait")
	case f.timeout <= 0:
		return nil, usagef("--timeout %v: must be positive", f.timeout)
	}
	command, err := f.order.command()
	switch {
	case err != nil:
		return nil, err
	case command.Until != nil && command.Until.Before(time.Now()):
		return nil, usagef("--until %q: is in the past", f.order.until)
	}
	if err := errors.Join(a.checkOutput(), command.Validate()); err != nil {
		return nil, usageError{err}
	}
	for _, id := range args {
		if err := keys.CheckTaskID(id); err != nil {
			return nil, usageError{err}
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if !selects {
		return ids, nil
	}
	err = errors.Join(f.selection.check(cmd, view.Live), f.consent.check(a))
	if len(f.selection.filter.Statuses) == 0 {
		f.selection.filter.Statuses = view.Live
	}
	return nil, err
}

// sendTo sends the order to the tasks of these IDs, or to those selected.
func (a *app) sendTo(ctx context.Context, c *windlass.Client, f sendFlags, ids []string) error {
	selects := ids == nil
	if selects {
		tasks, err := c.Tasks(ctx, f.selection.filter)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
	}
	p := newPreview(ids)
	if f.consent.dryRun {
		return a.print(p, func() table { return p.table(string(f.order.message) + " would go to") })
	}
	if selects {
		fmt.Fprintf(a.err, "%s goes to %s\n", f.order.message, p)
		if len(ids) > 0 {
			if err := f.consent.ask(ctx, a, "Send it?"); err != nil {
				return err
			}
		}
	}
	command, err := f.order.command()
	if err != nil {
		return err
	}
	sent := a.send(ctx, c, command, ids)
	if f.wait {
		a.await(ctx, c, sent, f.timeout)
	}
	return a.report(ctx, sent)
}
