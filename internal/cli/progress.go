package cli

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

// progress shows on a terminal how far something has come, on one line. On
// anything else it shows nothing.
type progress struct {
	app   *app
	what  string
	total int
	shown bool
}

func (a *app) newProgress(what string, total int) *progress {
	f, ok := a.err.(*os.File)
	return &progress{app: a, what: what, total: total, shown: ok && total > 1 && term.IsTerminal(int(f.Fd()))}
}

const progressCells = 30

func (p *progress) set(done int) {
	if !p.shown {
		return
	}
	full := progressCells * done / p.total
	bar := make([]byte, progressCells)
	for i := range bar {
		bar[i] = "#."[min(1, max(0, i-full+1))]
	}
	fmt.Fprintf(p.app.err, "\r%s [%s] %d of %d", p.what, bar, done, p.total)
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprintln(p.app.err)
	}
}
