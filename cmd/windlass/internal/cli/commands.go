package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/statemachine"
)

type sendFlags struct {
	message statemachine.Message
	// until and pause are those of sleep: the text of a time, or a duration.
	until     string
	pause     time.Duration
	selection selection
	consent   consent
	wait      bool
	timeout   time.Duration
	// again has the flags of retry and continue, change what they say, nil for nothing.
	again  retryFlags
	change func(*windlass.Submission) error
	// unblock is of delete, dependents of kill.
	unblock, dependents bool
	// batch is how many tasks are restarted at the same time; zero for all.
	batch int
}

// command returns the command to send. A duration counts from this call, after all questions.
func (f *sendFlags) command() (statemachine.Command, error) {
	switch {
	case f.message != statemachine.Sleep:
		return statemachine.Command{Message: f.message}, nil
	case f.until == "":
		return statemachine.SleepUntil(time.Now().Add(f.pause)), nil
	}
	at, err := time.Parse(time.RFC3339, f.until)
	if err != nil {
		return statemachine.Command{}, usagef("--until %q: must be like 2026-01-02T15:04:05Z", f.until)
	}
	return statemachine.SleepUntil(at), nil
}

const waitDefault = time.Minute

func (a *app) sendCommands() []*cobra.Command {
	return []*cobra.Command{
		a.sendCommand(statemachine.Run, "Wake up tasks that sleep or are paused",
			`Wake up tasks that sleep, are paused or wait after an error. On one that can run
already it changes nothing.`,
			`  windlass task run nightly --wait
  windlass task run --status paused --type report --dry-run`),
		a.sendCommand(statemachine.Pause, "Stop tasks until they are told to run",
			`Stop tasks until "task run". A handler that runs is told to stop; a command of an
exec task gets SIGTERM, and SIGKILL later.`,
			`  windlass task pause nightly --wait
  windlass task pause --type report --yes`),
		a.sendCommand(statemachine.Release, "Make the nodes give tasks back; others may take them",
			`Make the nodes that hold the tasks give them back. Their state stays as it is.`,
			`  windlass task release import-7`),
		a.sendCommand(statemachine.Kill, "End tasks for good",
			`End tasks for good: they are stopped, and kept as killed. "task delete" removes
them without a trace, and "task retry" runs a killed one again. What waits for a killed
task follows its --on-failure; with --dependents it is killed before the task is.`,
			`  windlass task kill import-7 --wait
  windlass task kill import-7 --dependents --dry-run
  windlass task kill --id-prefix import- --dry-run
  windlass task kill --id-prefix import- --yes --wait --timeout 5m`),
		a.sendCommand(statemachine.Checkpoint, "Ask handlers that listen to save their progress",
			`Ask the handlers of tasks to save their progress now. One that does not listen to
commands is not disturbed. That of exec tasks saves the end of the output so far, and
what the command uses.`,
			`  windlass task checkpoint --type import --yes`),
		a.sendCommand(commands.Delete, "Delete live tasks; those that run are stopped",
			`Delete live tasks. Those that run are stopped, and nothing is kept of them but the
history of those that a node has ever claimed. "task kill" ends tasks and remembers
them; "task prune" forgets what has ended.

A task that live tasks wait for is not deleted, since these might then run: --unblock lets
them, and "task kill --dependents" ends them as well. Tasks that are deleted together do
not count.`,
			`  windlass task delete import-7
  windlass task delete import-7 --unblock
  windlass task delete --id-prefix import- --dry-run`),
		a.sendCommand(commands.Retry, "Run tasks that have ended again, as they were submitted or with changes",
			`Run tasks that have ended again, from the beginning, with the spec and the properties
that they were submitted with. Selections are of failed tasks unless --status says
otherwise. "task failures" shows what failed, by error.`+changesHelp,
			`  windlass task retry import-7
  windlass task retry import-7 --props '{"customer":8}' --remove needs
  windlass task retry nightly -- echo "hello again"
  windlass task retry --error 'time for the run' --timeout 2h --yes
  windlass task retry --type import --dry-run
  windlass task retry --error 'connection refused' --yes`),
		a.sendCommand(commands.Continue, "Run tasks that have ended again, from their last checkpoint",
			`Run tasks that have ended again as "task retry" does, but keep the progress that they
have saved, so that their handlers go on from there. What has completed has none. Selections are
of failed tasks unless --status says otherwise.`+changesHelp,
			`  windlass task continue import-7
  windlass task continue --type import --status killed --yes`),
		a.sendCommand(commands.Restart, "Stop tasks that run, and run them again",
			`Stop tasks that run, and run them again as they are, mostly on the same node, with a
new fencing token. Progress that was saved is there again; it is no interruption.

With --batch only so many are restarted at the same time: the next ones once these run
again, within --timeout. If one does not, the rest is not restarted. A handler that
fails later than it is seen to run stops nothing: look at what was restarted first.`,
			`  windlass task restart import-7
  windlass task restart --type import --batch 10 --yes`),
		a.sendCommand(statemachine.Sleep, "Stop tasks until a time",
			`Stop tasks until a time; then they run again. "task run" wakes them up before.`,
			`  windlass task sleep nightly --for 2h
  windlass task sleep nightly --until 2030-01-02T15:04:05Z --wait`),
	}
}

const changesHelp = `

The flags of "task update" change the properties and the settings of the tasks: what is
not named stays as it was submitted. Arguments after the IDs and -- are the new command of
a task of type "exec". The flags --type, --node and --tag select tasks if no ID is given,
and change them otherwise.`

func (a *app) sendCommand(message statemachine.Message, short, long, example string) *cobra.Command {
	f := sendFlags{message: message}
	name := string(message)
	cmd := &cobra.Command{Use: name + " ID... | " + name + " --type T --status S --node N --id-prefix P --error TEXT --tag K=V --since T", Short: short, Example: example}
	cmd.Long, cmd.ValidArgsFunction = long, a.completeLive
	if commands.Runs(f.message) {
		cmd.Use += " [-- COMMAND ARGUMENT...]"
		cmd.ValidArgsFunction = a.completeEnded
	}
	if commands.IsSent(f.message) {
		cmd.Long += `

Name the tasks by ID, or select live tasks by flags. The node that holds a task carries
out the command. If no node holds it, "kill" and "pause" are carried out at once, also if
it waits for others or for its time; other commands wait for the next node to claim it.
A command stays pending as long as the task is live, and a later command replaces it.`
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := a.checkSend(cmd, &f, args)
		if err != nil {
			return err
		}
		return a.withClient(cmd.Context(), func(c *windlass.Client) error { return a.sendTo(cmd.Context(), c, f, ids) })
	}
	flags := cmd.Flags()
	if f.message == statemachine.Sleep {
		flags.StringVar(&f.until, "until", "", "when to wake up, as RFC 3339")
		flags.DurationVar(&f.pause, "for", 0, "how long to sleep, from now on")
	}
	if f.timeout = waitDefault; commands.IsSent(f.message) {
		flags.BoolVar(&f.wait, "wait", false, "return once the commands were carried out")
		flags.DurationVar(&f.timeout, "timeout", waitDefault, "with --wait: how long to wait")
	}
	switch f.message {
	case commands.Delete:
		flags.BoolVar(&f.unblock, "unblock", false, "also delete what live tasks wait for, which may then run")
	case statemachine.Kill:
		flags.BoolVar(&f.dependents, "dependents", false, "also kill what waits for the tasks, what waits for that, and so on, and all jobs below them")
	}
	if f.message == commands.Restart {
		flags.IntVar(&f.batch, "batch", 0, "how many at the same time; 0 for all at once")
		flags.DurationVar(&f.timeout, "timeout", waitDefault, "with --batch: within which time those of a batch have to run again")
	}
	among, _ := commands.Among(f.message)
	f.selection.register(cmd, among)
	if commands.Runs(f.message) {
		f.again.register(cmd, &f.selection)
	}
	a.completeNames(cmd)
	f.consent.register(cmd)
	return a.outputFlag(cmd)
}

// checkSend checks the command line before anything is done, and returns the IDs that
// were given, each once: a second command to the same task would replace the first.
func (a *app) checkSend(cmd *cobra.Command, f *sendFlags, args []string) (ids []string, err error) {
	flags := cmd.Flags()
	selects := f.selection.given(cmd)
	if commands.Runs(f.message) {
		var command []string
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			args, command = args[:dash], args[dash:]
		}
		selects = len(args) == 0 && selects || slices.ContainsFunc([]string{"status", "id-prefix", "error", "since"}, flags.Changed)
		if f.change, err = f.again.read(cmd, len(args) > 0, command); err != nil {
			return nil, err
		}
	}
	switch {
	case selects && len(args) > 0:
		return nil, usagef("the ID %q and flags that select tasks exclude each other", args[0])
	case !selects && len(args) == 0:
		return nil, usagef("%s needs at least one ID, or --type, --status, --node, --id-prefix, --error, --tag or --since", cmd.CommandPath())
	case f.message == statemachine.Sleep && flags.Changed("until") == flags.Changed("for"):
		return nil, usagef("%s needs --until or --for, and not both", cmd.CommandPath())
	case flags.Changed("for") && f.pause <= 0:
		return nil, usagef("--for %v: must be positive", f.pause)
	case f.batch < 0 || f.batch > restartBatchMax:
		return nil, usagef("--batch %d: must be at most %d", f.batch, restartBatchMax)
	case flags.Changed("timeout") && f.message == commands.Restart && f.batch == 0:
		return nil, usagef("--timeout goes with --batch")
	case flags.Changed("timeout") && commands.IsSent(f.message) && !f.wait:
		return nil, usagef("--timeout goes with --wait")
	case f.timeout <= 0:
		return nil, usagef("--timeout %v: must be positive", f.timeout)
	}
	command, err := f.command()
	switch {
	case err != nil:
		return nil, err
	case command.Until != nil && command.Until.Before(time.Now()):
		return nil, usagef("--until %q: is in the past", f.until)
	}
	if commands.IsSent(f.message) {
		if err := command.Validate(); err != nil {
			return nil, usageError{err}
		}
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
	among, usual := commands.Among(f.message)
	err = errors.Join(f.selection.check(cmd, among), f.consent.check(a))
	if len(f.selection.filter.Statuses) == 0 {
		f.selection.filter.Statuses = usual
	}
	return nil, err
}

// sendTo sends the command to the tasks of these IDs, or to those selected.
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
	command, err := f.command()
	if err != nil {
		return err
	}
	shown := ids
	if f.dependents {
		below, err := commands.Dependents(ctx, c, ids)
		if err != nil {
			return err
		}
		shown = slices.Concat(ids, below)
	}
	if f.consent.dryRun {
		return a.print(view.PreviewOf(shown), func() table { return previewTable(string(f.message)+" would go to", "task", shown) })
	}
	if selects {
		fmt.Fprintf(a.err, "%s goes to %s\n", f.message, previewOf(shown))
		if len(ids) > 0 {
			if err := f.consent.ask(ctx, a, "Send it?"); err != nil {
				return err
			}
		}
	}
	if f.batch > 0 {
		return a.report(ctx, a.restartInBatches(ctx, c, ids, f.batch, f.timeout))
	}
	sent := a.send(ctx, c, commands.Command{Command: command, Change: f.change, Unblock: f.unblock, Dependents: f.dependents}, ids)
	a.warnDoubts(ctx, c, sent)
	a.warnPaused(ctx, c, f.message, ids)
	if f.wait {
		a.await(ctx, c, sent, f.timeout)
	}
	return a.report(ctx, sent)
}

// warnDoubts says what is probably not meant of the tasks that were changed.
func (a *app) warnDoubts(ctx context.Context, c *windlass.Client, sent []*commands.Result) {
	var changed []windlass.Submission
	for _, o := range sent {
		if o.After != nil {
			changed = append(changed, *o.After)
		}
	}
	if len(changed) > 0 {
		warnings, _ := inspect.New(c).Warnings(ctx, changed) // who cannot read them has been told of worse
		a.warn(warnings...)
	}
}

// warnPaused says of tasks that were told to run which of them do not, since their type is
// paused.
func (a *app) warnPaused(ctx context.Context, c *windlass.Client, message statemachine.Message, ids []string) {
	if !slices.Contains([]statemachine.Message{statemachine.Run, commands.Restart, commands.Retry, commands.Continue}, message) {
		return
	}
	paused, err := operate.New(c).PausedTypes(ctx)
	if err != nil {
		return // it is no part of the answer
	}
	told := map[string]bool{}
	for _, id := range ids {
		told[id] = true
	}
	for _, taskType := range slices.Sorted(maps.Keys(paused)) {
		tasks, err := c.Tasks(ctx, windlass.Filter{Types: []string{taskType}})
		if err != nil {
			return
		}
		if n := len(slices.DeleteFunc(tasks, func(t windlass.TaskInfo) bool { return !told[t.ID] || t.FinishedAt != nil })); n > 0 {
			p := paused[taskType]
			a.warn(fmt.Sprintf("%d of these tasks wait until their type %q is resumed; it is paused %v", n, taskType, &p))
		}
	}
}

// sendBatch is how many commands are sent at once, between two updates of the progress.
const sendBatch = 500

// send sends a command to tasks; after an interrupt the rest fails with it. What depends
// on the order of tasks that need each other is sent as a whole.
func (a *app) send(ctx context.Context, c *windlass.Client, command commands.Command, ids []string) []*commands.Result {
	all := make([]*commands.Result, 0, len(ids))
	bar := a.newProgress("sending", len(ids))
	if commands.Runs(command.Message) || command.Message == commands.Delete || command.Dependents {
		all = commands.Apply(meter.With(ctx, bar.set), c, command, ids)
		bar.end()
		return all
	}
	for some := range slices.Chunk(ids, sendBatch) {
		all = append(all, commands.Apply(ctx, c, command, some)...)
		bar.set(len(all))
	}
	bar.end()
	return all
}

// await waits until the commands that were sent have been carried out.
func (a *app) await(ctx context.Context, c *windlass.Client, all []*commands.Result, timeout time.Duration) {
	total := 0
	for _, o := range all {
		if o.Err == nil {
			total++
		}
	}
	bar := a.newProgress("waiting", total)
	open := commands.Await(ctx, c, all, timeout, func(open int) { bar.set(total - open) })
	bar.end()
	if ctx.Err() != nil {
		return // the open ones stay as sent
	}
	for _, o := range open {
		o.Fail(fmt.Errorf("command %s to task %q: was sent, and not carried out within %v", o.Message, o.ID, timeout))
	}
}

// report prints what became of the commands; the first that failed decides about
// the exit code.
func (a *app) report(ctx context.Context, all []*commands.Result) error {
	printed := a.print(all, func() table {
		return table{heading: []string{"ID", "MESSAGE", "RESULT"}, rows: rowsOf(all, func(o *commands.Result) []string {
			return []string{o.ID, string(o.Message), resultText(o)}
		})}
	})
	if ctx.Err() != nil {
		return errors.Join(printed, ctx.Err())
	}
	var first error
	failed := 0
	for _, o := range all {
		if o.Err != nil {
			first = cmp.Or(first, o.Err)
			failed++
		}
	}
	first = withHint(first, commands.ErrNeeded, `"windlass task delete --unblock" deletes it all the same, and "windlass task kill --dependents" ends it and all that waits for it.`)
	if first != nil && len(all) > 1 {
		first = fmt.Errorf("%d of %d commands failed; the first: %w", failed, len(all), first)
	}
	return errors.Join(printed, first)
}

func resultText(o *commands.Result) string {
	switch {
	case o.Err != nil:
		return o.Result + ": " + o.Error
	case o.Status != "":
		return o.Result + ": " + string(o.Status)
	case len(o.Changes) > 0:
		texts := make([]string, len(o.Changes))
		for i, c := range o.Changes {
			texts[i] = c.String()
		}
		return o.Result + ": " + strings.Join(texts, "; ")
	}
	return o.Result
}
