package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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
func (a *app) follow(ctx context.Context, c *windlass.Client, out *logWriter, log taskLog, lines int) error {
	if log.task.FinishedAt != nil {
		return a.printLog(ctx, c, out, log, lines)
	}
	f := follower{out: out, notes: a.err, lines: lines, last: -1}
	if log.isHere() {
		moved, err := followHere(ctx, c, out, log, lines)
		if !moved || err != nil {
			if now, findErr := findLog(ctx, c, log.task.ID); err == nil && findErr == nil {
				a.note(now.ends(ctx, c)...)
			}
			return err
		}
		end, err := exectask.LogEndOf(log.dir, log.task.ID)
		if err != nil {
			return err
		}
		f.seen, f.last, f.node, f.whole, f.lines = []exectask.LogEnd{end}, 0, log.task.Node, true, -1
	}
	for wait := followMin; ; wait = min(2*wait, followMax) {
		soon, ended, err := f.look(ctx, c, log.task.ID)
		if ended || err != nil {
			return err
		}
		if soon {
			wait = followMin
		}
		if !pause.For(ctx, wait) {
			return nil
		}
	}
}

// followHere prints what is added to a log on this host. It reports whether the task has
// moved to a node that keeps its log elsewhere.
func followHere(ctx context.Context, c *windlass.Client, out *logWriter, log taskLog, lines int) (moved bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	var lost error
	var watch sync.WaitGroup
	watch.Go(func() {
		defer stop()
		moved, lost = endOrMove(ctx, c, log)
	})
	err = exectask.Tail(ctx, out, log.dir, log.task.ID, exectask.TailConfig{Lines: lines, Follow: true, Printed: out.raw})
	stop()
	watch.Wait()
	return moved, errors.Join(lost, err)
}

// endOrMove waits until a task has ended, or is claimed by a node that keeps its log
// elsewhere, or ctx is done. The log can be read without the broker, so errors are passed
// over.
func endOrMove(ctx context.Context, c *windlass.Client, log taskLog) (moved bool, err error) {
	for token := log.task.Token; pause.For(ctx, followMin); {
		task, err := c.Task(ctx, log.task.ID)
		switch {
		case errors.Is(err, windlass.ErrNotFound):
			return false, err
		case err != nil:
			continue
		case task.FinishedAt != nil:
			return false, nil
		case task.Node == "" || task.Token == token:
			continue
		}
		now, err := findLog(ctx, c, log.task.ID)
		switch {
		case err != nil:
			continue
		case now.host != log.host || now.dir != log.dir:
			return true, nil
		}
		token = task.Token
	}
	return false, nil
}

// follower prints what is new at each look at the output of a task.
type follower struct {
	out   *logWriter
	notes io.Writer
	// lines are those that are printed at the first look, below zero all.
	lines int
	// seen is up to where it has been printed, for each host where the task ran.
	seen []exectask.LogEnd
	// last is the index of the log in seen that was printed last, below zero for none.
	last int
	// node is the one whose log was printed last, and whole is whether that was to its end.
	node  string
	whole bool
	// told is the latest note, empty if there was output since.
	told string
	// lacks is the latest note that the log is incomplete.
	lacks string
}

// look prints what is new. It reports whether to look again soon, as something was new, or no
// node has to be asked, and whether the task has ended.
func (f *follower) look(ctx context.Context, c *windlass.Client, id string) (soon, ended bool, err error) {
	task, err := c.Task(ctx, id)
	var report exectask.Report
	if err == nil {
		report, err = reportOf(ctx, c, id)
	}
	if err == nil && f.find(report.LogEnd) >= 0 { // which a node left as it gave the task up
		if soon, err = f.show(report, f.node, 0); err != nil {
			return false, false, err
		}
	}
	if err == nil && task.Status == windlass.StatusRunning {
		report, err = askReport(ctx, c, task.TaskInfo)
	}
	switch {
	case ctx.Err() != nil:
		return false, true, nil
	case errors.Is(err, windlass.ErrNotFound):
		if len(f.seen) > 0 && !f.whole {
			f.note(f.missing())
		}
		return false, false, err
	case errors.Is(err, errMoved): // the next look finds it elsewhere
		return true, false, nil
	case err != nil: // the node may be frozen, the broker away, or the task about to stop
		f.note(err.Error())
		return soon, false, nil
	}
	covers, lacks, outlived := int64(0), lacksLog(0, report.LogError), ""
	if task.Status != windlass.StatusRunning {
		var result exectask.Outcome
		_ = json.Unmarshal(task.Result, &result) // there is none, or something else
		report = exectask.Report{Output: result.Output, Truncated: result.Truncated, LogEnd: result.LogEnd, Last: true}
		if !result.Truncated {
			covers = result.LogBytes
		}
		lacks = lacksLog(result.LogMissing, result.LogError)
		outlived = outlivedBy(result)
	}
	added, err := f.show(report, task.Node, covers)
	if f.lacks != lacks && lacks != "" {
		f.note(lacks)
	}
	f.lacks = lacks
	if task.FinishedAt != nil && outlived != "" {
		f.note(outlived)
	}
	return soon || added || task.Status != windlass.StatusRunning, task.FinishedAt != nil, err
}

// show prints what is new in a report of a node, and says what is left out. covers is how
// much of the log the output stands for, if that is more than it has: a result lacks the
// first line of its run.
func (f *follower) show(r exectask.Report, node string, covers int64) (added bool, err error) {
	if r.LogEnd.File == "" { // nothing has been written
		return false, nil
	}
	text, at := r.Output, f.find(r.LogEnd)
	covers = max(covers, int64(len(text)))
	joins := at >= 0 && at == f.last
	if at >= 0 {
		n, _ := r.LogEnd.Since(f.seen[at])
		if n <= 0 {
			f.whole = f.whole || n == 0 && r.Last
			return false, nil
		}
		if left := n - covers; left > 0 {
			f.note(fmt.Sprintf("up to %d bytes are left out here", left))
		}
		joins = joins && n <= int64(len(text))
		text = text[max(0, int64(len(text))-n):]
		f.seen[at] = r.LogEnd
	} else {
		switch {
		case len(f.seen) > 0 && !f.whole:
			f.note(f.missing())
		case f.lines < 0 && r.LogEnd.Bytes+r.LogEnd.RotatedBytes > covers:
			f.note("the beginning is left out")
		}
		at, f.seen = len(f.seen), append(f.seen, r.LogEnd)
	}
	if f.out.raw {
		text = r.LogEnd.Printed(text)
	}
	text, f.lines = exectask.LastLines(text, f.lines), -1
	f.last, f.node, f.whole = at, node, r.Last
	if text == "" {
		return false, nil
	}
	f.told = ""
	if !joins {
		err = f.out.apart()
	}
	if err == nil {
		_, err = io.WriteString(f.out, text)
	}
	return true, err
}

func (f *follower) missing() string {
	return fmt.Sprintf("what it printed last on node %s may be left out", f.node)
}

// find returns the index of the log that a report is about among those seen, below zero if it
// is new, or was rotated more than once since.
func (f *follower) find(end exectask.LogEnd) int {
	return slices.IndexFunc(f.seen, func(seen exectask.LogEnd) bool {
		_, known := end.Since(seen)
		return known && end.File != ""
	})
}

// note says something that is no output, once until there is more output.
func (f *follower) note(text string) {
	if text != f.told {
		fmt.Fprintln(f.notes, "windlass:", view.EscapeText(text))
	}
	f.told = text
}
