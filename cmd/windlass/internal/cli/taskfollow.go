package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/view"
)

// How often a task is looked at while its output is followed. From afar the pause doubles
// up to followMax while nothing is added.
const (
	followMin = time.Second
	followMax = 5 * time.Second
)

// follow prints what is added to a task's output until the task has ended or ctx is done.
// The error is windlass.ErrNotFound if it is deleted; others are told, and it goes on.
func (a *app) follow(ctx context.Context, c *windlass.Client, out io.Writer, log taskLog, lines int) error {
	if log.task.FinishedAt != nil {
		return a.printLog(ctx, c, out, log, lines)
	}
	for log.isHere() {
		moved, err := followHere(ctx, c, out, log, lines)
		if moved == nil || err != nil {
			return err
		}
		log, lines = *moved, -1
	}
	f := follower{out: out, notes: a.err, lines: lines}
	for wait := followMin; ; wait = min(2*wait, followMax) {
		added, ended, err := f.look(ctx, c, log.task.ID)
		if ended || err != nil {
			return err
		}
		if added {
			wait = followMin
		}
		if !pause.For(ctx, wait) {
			return nil
		}
	}
}

// followHere prints what is added to a log on this host. It returns where the log goes on
// if the task moves to a node that keeps it elsewhere.
func followHere(ctx context.Context, c *windlass.Client, out io.Writer, log taskLog, lines int) (moved *taskLog, err error) {
	ctx, stop := context.WithCancel(ctx)
	var lost error
	var watch sync.WaitGroup
	watch.Go(func() {
		defer stop()
		moved, lost = endOrMove(ctx, c, log)
	})
	err = exectask.Tail(ctx, out, log.dir, log.task.ID, lines, true)
	stop()
	watch.Wait()
	return moved, errors.Join(lost, err)
}

// endOrMove waits until a task has ended, or is claimed by a node that keeps its log
// elsewhere, which it returns, or ctx is done. The log can be read without the broker, so
// errors are passed over.
func endOrMove(ctx context.Context, c *windlass.Client, log taskLog) (moved *taskLog, err error) {
	for token := log.task.Token; pause.For(ctx, followMin); {
		task, err := c.Task(ctx, log.task.ID)
		switch {
		case errors.Is(err, windlass.ErrNotFound):
			return nil, err
		case err != nil:
			continue
		case task.FinishedAt != nil:
			return nil, nil
		case task.Node == "" || task.Token == token:
			continue
		}
		now, err := findLog(ctx, c, log.task.ID)
		switch {
		case err != nil:
			continue
		case now.host != log.host || now.dir != log.dir:
			return &now, nil
		}
		token = task.Token
	}
	return nil, nil
}

// follower prints what is new at each look at the output of a task.
type follower struct {
	out, notes io.Writer
	// lines are those that are printed at the first look, below zero all.
	lines int
	// seen is up to where it has been printed, for each host where the task ran.
	seen []exectask.LogEnd
	// told is the latest note, empty if there was output since.
	told string
}

// look prints what is new: the end of what the task's node reports while its command runs,
// and of the result otherwise. It reports whether anything was added, and whether the task
// has ended.
func (f *follower) look(ctx context.Context, c *windlass.Client, id string) (added, ended bool, err error) {
	task, err := c.Task(ctx, id)
	var report exectask.Report
	if err == nil && task.Status == windlass.StatusRunning {
		report, err = askReport(ctx, c, task.TaskInfo)
	}
	switch {
	case ctx.Err() != nil:
		return false, true, nil
	case errors.Is(err, windlass.ErrNotFound):
		return false, false, err
	case err != nil: // the node may be frozen, the broker away, or the task about to stop
		f.note(err.Error())
		return false, false, nil
	case task.Status == windlass.StatusRunning:
		added, err = f.add(report.Output, report.Truncated, report.LogEnd)
		return added, false, err
	}
	var result exectask.Outcome
	if json.Unmarshal(task.Result, &result) == nil { // or there is none, or something else
		added, err = f.add(result.Output, result.Truncated, result.LogEnd)
	}
	return added, task.FinishedAt != nil, err
}

// add prints what is new in the end of a log, and says what is left out.
func (f *follower) add(text string, cut bool, end exectask.LogEnd) (added bool, err error) {
	if end.File == "" { // nothing has been written
		return false, nil
	}
	n, known := f.since(end)
	switch {
	case known && n <= int64(len(text)):
		text = text[int64(len(text))-max(n, 0):]
	case known:
		f.note(fmt.Sprintf("up to %d bytes are left out here", n-int64(len(text))))
	default:
		if cut && f.lines < 0 {
			f.note("the beginning is left out")
		}
		text = exectask.LastLines(text, f.lines)
		f.lines = -1
	}
	if text == "" {
		return false, nil
	}
	f.told = ""
	_, err = io.WriteString(f.out, text)
	return true, err
}

// since returns how much has been written to the log since it was seen; known is false if
// it has not been.
func (f *follower) since(end exectask.LogEnd) (n int64, known bool) {
	for i, seen := range f.seen {
		if n, known = end.Since(seen); known {
			if n > 0 {
				f.seen[i] = end
			}
			return n, true
		}
	}
	f.seen = append(f.seen, end)
	return 0, false
}

// note says something that is no output, once until there is more output.
func (f *follower) note(text string) {
	if text != f.told {
		fmt.Fprintln(f.notes, "windlass:", view.EscapeText(text))
	}
	f.told = text
}
