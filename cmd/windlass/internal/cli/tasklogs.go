package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) taskLogsCommand() *cobra.Command {
	var follow, raw bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the output of a task that runs, or ran, an OS command",
		Long: `Print what a task's command has written to standard output and error, as kept
by the node that runs it. On another host than the node's, print the end of it: while
the command runs, the node is asked for its last 32 KiB; afterwards the task's result
has the last 4 KiB.

With --follow, go on with what is added, to whichever node the task moves, until it has
ended or is deleted. From another host the node is asked again each second, or each five
while nothing is added. What is more than 32 KiB in that time is left out, and it says so.

A line that begins with "--- windlass" says whose output follows. It stands on a line of
its own, also after output that does not end with a newline, and within a line that is
longer than a log file. It also says where output is missing because the log could not be
written, as on a full disk, and a note on standard error says so at the end. Another one says
how many processes the program had left behind when it exited, as a daemon does. Control characters and bytes that are not text are shown as
escapes such as \x1b. --raw prints neither: only what the command has written, unchanged. What comes from another host has a question mark for each
byte that is not UTF-8.`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			log, err := findLog(ctx, c, args[0])
			waits := follow && log.task.Type == exectask.Type && log.task.FinishedAt == nil
			if err != nil && !waits {
				return err
			}
			show := a.printLog
			if follow {
				show = a.follow
			}
			if raw {
				return show(ctx, c, &logWriter{Writer: a.out, raw: true}, log, lines)
			}
			out := view.Escaper(a.out)
			return errors.Join(show(ctx, c, &logWriter{Writer: out}, log, lines), out.Close())
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added, until the task has ended")
	cmd.Flags().BoolVar(&raw, "raw", false, "print only what the command has written, unchanged")
	cmd.Flags().IntVarP(&lines, "lines", "n", -1, "only the last lines; below zero all")
	return cmd
}

// logWriter prints a log.
type logWriter struct {
	io.Writer
	// raw prints only what the commands have written.
	raw bool
	// open is whether the last line has no newline.
	open bool
}

// Write implements io.Writer.
func (w *logWriter) Write(p []byte) (int, error) {
	if len(p) > 0 {
		w.open = p[len(p)-1] != '\n'
	}
	return w.Writer.Write(p)
}

// apart begins a line, as other output follows than that of before.
func (w *logWriter) apart() error {
	if w.raw || !w.open {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}

func (a *app) printLog(ctx context.Context, c *windlass.Client, out *logWriter, log taskLog, lines int) error {
	if log.isHere() {
		err := exectask.Tail(ctx, out, log.dir, log.task.ID, exectask.TailConfig{Lines: lines, Printed: out.raw})
		switch {
		case errors.Is(err, os.ErrNotExist) && log.isRemoved(log.lacks(ctx, c)):
			return fmt.Errorf("task %q: no output is kept in %s: %w", log.task.ID, log.dir, windlass.ErrNotFound)
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return err
		}
		a.note(log.ends(ctx, c)...)
		return nil
	}
	text, cut, err := log.fromAfar(ctx, c, out.raw)
	if err != nil {
		return err
	}
	if cut {
		fmt.Fprintf(a.err, "windlass: the beginning is left out; it is on host %s in %s\n", view.EscapeText(log.host), view.EscapeText(log.dir))
	}
	if _, err = io.WriteString(out, exectask.LastLines(text, lines)); err == nil {
		a.note(log.ends(ctx, c)...)
	}
	return err
}

// note says what is no output.
func (a *app) note(texts ...string) {
	for _, text := range texts {
		fmt.Fprintln(a.err, "windlass:", view.EscapeText(text))
	}
}

// lacksLog says that a log is incomplete, empty if it is not. missing is 0 if not known.
func lacksLog(missing int64, reason string) string {
	switch {
	case reason == "":
		return ""
	case missing == 0:
		return "the log is incomplete: " + reason
	}
	return fmt.Sprintf("the log is incomplete: %d bytes of the last run are missing: %s", missing, reason)
}

// taskLog says where a task's output is kept.
type taskLog struct {
	task   windlass.TaskDetail
	result exectask.Outcome
	// host and dir are those of its node while it has not ended, and of its result afterwards.
	host, dir string
}

func findLog(ctx context.Context, c *windlass.Client, id string) (taskLog, error) {
	task, err := c.Task(ctx, id)
	if err != nil {
		return taskLog{}, err
	}
	log := taskLog{task: task}
	if json.Unmarshal(task.Result, &log.result) != nil {
		log.result = exectask.Outcome{}
	}
	log.host, log.dir = log.result.Host, log.result.LogDir
	if task.FinishedAt == nil && task.Node != "" {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return taskLog{}, err
		}
		for _, n := range nodes {
			if n.Name == task.Node {
				log.host, log.dir = n.Host, n.LogDir
			}
		}
	}
	if log.dir == "" {
		return log, fmt.Errorf("task %q: no output is kept for it: it is %s, of type %q: %w", id, task.Status, task.Type, windlass.ErrNotFound)
	}
	return log, nil
}

// ends returns what is to be said at the end of a log, in lines.
func (l taskLog) ends(ctx context.Context, c *windlass.Client) []string {
	return slices.DeleteFunc([]string{l.lacks(ctx, c), l.outlived()}, func(text string) bool { return text == "" })
}

// outlived says that the last run has left processes behind, empty if it has not.
func (l taskLog) outlived() string {
	if l.task.Status == windlass.StatusRunning {
		return ""
	}
	return outlivedBy(l.result)
}

// outlivedBy says how many processes have outlived the program of a run, empty for none.
func outlivedBy(o exectask.Outcome) string {
	if o.Outlived == 0 {
		return ""
	}
	return fmt.Sprintf("%d process(es) still ran when the program of the last run had exited, and were ended: have it run in the foreground", o.Outlived)
}

// lacks says that the log lacks output of the last run, empty if it does not, or that is not
// known.
func (l taskLog) lacks(ctx context.Context, c *windlass.Client) string {
	if l.task.Status == windlass.StatusRunning {
		if report, err := reportOf(ctx, c, l.task.ID); err == nil {
			return l.lacksBy(report)
		}
		return ""
	}
	return lacksLog(l.result.LogMissing, l.result.LogError)
}

// lacksBy says what lacks says by the report that is stored while the command runs.
func (l taskLog) lacksBy(r exectask.Report) string {
	if at := l.task.ClaimedAt; at != nil && r.At.Before(*at) {
		return "" // it is of an earlier claim, which may have had another disk
	}
	return lacksLog(0, r.LogError)
}

// isRemoved reports whether a log that does not exist is no longer kept, or never was. lacks
// is what it lacks: one that could not be created has that instead.
func (l taskLog) isRemoved(lacks string) bool {
	return lacks == "" || l.task.Status != windlass.StatusRunning && l.result.LogBytes > 0
}

// isHere reports whether the output is on this host, as far as that is known.
func (l taskLog) isHere() bool {
	here, err := os.Hostname()
	return err != nil || here == l.host
}

// fromAfar returns the end of the output, and whether there is more: of a command that
// runs, its node reports that; of any other, the result has it, which has no headers.
func (l taskLog) fromAfar(ctx context.Context, c *windlass.Client, raw bool) (text string, cut bool, err error) {
	if l.task.Status != windlass.StatusRunning {
		return l.result.Output, l.result.Truncated, nil
	}
	report, err := askReport(ctx, c, l.task.TaskInfo)
	if errors.Is(err, errNoReport) {
		err = fmt.Errorf("%w; its output is on host %s in %s", err, l.host, l.dir)
	}
	if raw {
		report.Output = report.LogEnd.Printed(report.Output)
	}
	return report.Output, report.Truncated, err
}
