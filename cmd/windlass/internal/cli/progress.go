package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/windlass-go/windlass/internal/view"
)

// Times and sizes of a progress.
const (
	// progressEvery is the time between two drawings: what is faster nobody sees.
	progressEvery = 100 * time.Millisecond
	// progressQuiet is for how long nothing is drawn: what is over by then needs none.
	progressQuiet = 300 * time.Millisecond
	// etaAfter is from when on the time that is left is guessed.
	etaAfter = 2 * time.Second
	// progressCells is how long a bar is where there is room, progressCellsMin how
	// long it is at least.
	progressCells    = 30
	progressCellsMin = 8
)

// progress shows on a terminal how far something has come, on one line of standard
// error. On anything else, and with --quiet, it shows nothing. All of its methods
// can be called at any time and by anyone; end must be.
type progress struct {
	out   io.Writer
	width func() int
	over  chan struct{}
	// drawing is the goroutine that draws.
	drawing sync.WaitGroup

	mu    sync.Mutex
	what  string
	done  int
	total int
	began time.Time
	// drawn tells that there is something on the line.
	drawn bool
}

// newProgress begins one, or nil, which shows nothing. A total of 0 is not known:
// then it shows the time that has passed.
func (a *app) newProgress(what string, total int) *progress {
	f, ok := a.err.(*os.File)
	if !ok || a.quiet || !term.IsTerminal(int(f.Fd())) || isDumb(os.Getenv("TERM")) {
		return nil
	}
	if total == 1 {
		total = 0 // it has no parts that could be shown
	}
	return startProgress(f, func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}, what, total)
}

// isDumb tells whether a terminal of that type cannot move its cursor.
func isDumb(terminal string) bool { return terminal == "dumb" }

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

// draw draws the line anew.
func (p *progress) draw(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.began) < progressQuiet && !p.drawn {
		return
	}
	p.drawn = true
	// A line that is as wide as the terminal would make some of them begin another.
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

// clear takes the line away, so that something else can be written there. The caller
// holds the lock.
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

// end takes it away.
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

// progressLine is a progress in at most so many cells. Where there is no
// room it loses first the time, then the bar, then the end of the text.
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

// cutCells counts a wide rune as two and a combining one as none, as a terminal does.
func cutCells(s string, most int) string { return ansi.Truncate(s, max(0, most), "") }
