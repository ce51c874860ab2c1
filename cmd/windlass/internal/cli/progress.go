package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/windlass-go/windlass/internal/view"
)

// Times and sizes of a progress.
const (
	// progressEvery is the time between two drawings.
	progressEvery = 100 * time.Millisecond
	// progressQuiet is the time before the first drawing: shorter work needs none.
	progressQuiet = 300 * time.Millisecond
	// etaAfter is the time before the first estimate of the time that is left.
	etaAfter = 2 * time.Second
	// progressCells is the usual length of a bar, progressCellsMin the shortest.
	progressCells    = 30
	progressCellsMin = 8
)

// progress shows on a terminal how far something has come, on one line of standard
// error. Nil shows nothing. All methods can be called at any time by any goroutine; end
// must be called.
type progress struct {
	out     io.Writer
	width   func() int
	over    chan struct{}
	drawing sync.WaitGroup

	mu    sync.Mutex
	what  string
	done  int
	total int
	began time.Time
	// drawn reports whether there is something on the line.
	drawn bool
}

// newProgress begins a progress; nil with --quiet, and if standard error is no terminal.
// A total of 0 is not known: then it shows the time that has passed.
func (a *app) newProgress(what string, total int) *progress {
	if a.quiet || !isTerminal(a.err) || isDumb() {
		return nil
	}
	if total == 1 {
		total = 0 // it has no parts that could be shown
	}
	return startProgress(a.err, func() int {
		if width, _, ok := terminalSize(a.err); ok {
			return width
		}
		return 80
	}, what, total)
}

// isDumb reports whether the terminal cannot move its cursor.
func isDumb() bool { return os.Getenv("TERM") == "dumb" }

// startProgress draws until end is called.
func startProgress(out io.Writer, width func() int, what string, total int) *progress {
	p := &progress{out: out, width: width, over: make(chan struct{}), what: what, total: total, began: time.Now()}
	p.drawing.Go(func() {
		ticks := time.NewTicker(progressEvery)
		defer ticks.Stop()
		for {
			select {
			case <-p.over:
				return
			case now := <-ticks.C:
				p.draw(now)
			}
		}
	})
	return p
}

func (p *progress) draw(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) < progressQuiet && !p.drawn {
		return
	}
	p.drawn = true
	// Some terminals begin another line after one that fills their width.
	fmt.Fprintf(p.out, "\r%s\x1b[K", progressLine(p.what, p.done, p.total, now.Sub(p.began), p.width()-1))
}

// set says how much is done.
func (p *progress) set(done int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
}

// next begins another part of the work, whose time counts from now on.
func (p *progress) next(what string, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.done, p.total, p.began = what, 0, total, time.Now()
}

// clear removes the line, so that something else can be written there. The caller holds
// the lock.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	p.drawn = false
}

// say writes a line of text to standard error, above a progress if one is shown.
func (a *app) say(p *progress, text string) {
	if p == nil {
		fmt.Fprintln(a.err, text)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintln(p.out, text)
}

// end removes the line, and ends the drawing.
func (p *progress) end() {
	if p == nil {
		return
	}
	close(p.over)
	p.drawing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// progressLine is a progress in at most width cells. A short line has first no time, then
// no bar, then not all of the text.
func progressLine(what string, done, total int, passed time.Duration, width int) string {
	what = view.Printable(what)
	if total <= 0 {
		return cutCells(fmt.Sprintf("%s … %s", what, view.Span(passed)), width)
	}
	done = max(0, min(done, total))
	counts := fmt.Sprintf("%d of %d %3d%%", done, total, int(100*int64(done)/int64(total)))
	left := ""
	if passed >= etaAfter && done > 0 && done < total {
		left = fmt.Sprintf("  %s left", view.Span(time.Duration(float64(passed)/float64(done)*float64(total-done))))
	}
	bare := ansi.StringWidth(what) + 1 + len(counts)
	cells := min(progressCells, width-bare-3-len(left))
	if cells < progressCellsMin {
		left = ""
		cells = min(progressCells, width-bare-3)
	}
	if cells < progressCellsMin {
		return cutCells(what+" "+counts, width)
	}
	full := cells * done / total
	return fmt.Sprintf("%s [%s%s] %s%s", what, strings.Repeat("#", full), strings.Repeat(".", cells-full), counts, left)
}

// cutCells cuts text to a number of cells; wide runes have two, combining ones none.
func cutCells(s string, most int) string { return ansi.Truncate(s, max(0, most), "") }
