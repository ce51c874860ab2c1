package windlasstest

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// clockFormat shows the time of a bubble, which begins at midnight.
const clockFormat = "15:04:05.000"

func clockOf(t time.Time) string { return t.UTC().Format(clockFormat) }

// journalLinesMax limits the part of its journal that a failing test shows: the end.
const journalLinesMax = 200

// journal records what happened, in order, for the log of a failing test.
type journal struct {
	mu sync.Mutex
	// lines are the last ones. Invariant: fewer than 2 * journalLinesMax.
	lines []moment
	// dropped is how many there were before.
	dropped int
}

// moment is a line that is formatted only when it is read.
type moment struct {
	at     time.Time
	node   string // empty for the cluster as a whole
	format string
	args   []any
}

// note adds a line. It may be called from anywhere.
func (j *journal) note(node, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, moment{at: time.Now(), node: node, format: format, args: args})
	if len(j.lines) == 2*journalLinesMax {
		j.lines = append([]moment(nil), j.lines[journalLinesMax:]...)
		j.dropped += journalLinesMax
	}
}

// String returns the end of the journal.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	shown := j.lines[max(0, len(j.lines)-journalLinesMax):]
	var b strings.Builder
	if before := j.dropped + len(j.lines) - len(shown); before > 0 {
		fmt.Fprintf(&b, "(%d lines before)\n", before)
	}
	for _, l := range shown {
		text := strings.ReplaceAll(fmt.Sprintf(l.format, l.args...), "\n", "; ") // joined errors
		fmt.Fprintf(&b, "%s  %-8s %s\n", clockOf(l.at), l.node, text)
	}
	return b.String()
}
