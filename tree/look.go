package tree

import "github.com/windlass-go/windlass"

// look is how a status is drawn.
type look struct {
	status windlass.Status
	words  string
	mark   string
	// letter is the mark without Unicode.
	letter string
	// ansi is the colour of a terminal, the parameters of SGR.
	ansi string
	// interest orders the jobs of which only some can be shown, 0 first.
	interest int
}

// looks lists them in the order of summaries: ended, in progress, waiting.
var looks = [...]look{
	{windlass.StatusCompleted, "completed", "✓", "c", "32", 10},
	{windlass.StatusFailed, "failed", "✗", "f", "31", 0},
	{windlass.StatusKilled, "killed", "⊘", "k", "35", 3},
	{windlass.StatusRunning, "running", "●", "r", "36", 2},
	{windlass.StatusSleeping, "sleeping", "☾", "s", "34", 5},
	{windlass.StatusPaused, "paused", "‖", "=", "33", 4},
	{windlass.StatusFault, "fault", "!", "!", "1;31", 1},
	{windlass.StatusPending, "pending", "○", "p", "37", 6},
	{windlass.StatusBlocked, "blocked", "◌", "b", "90", 7},
	{"", "not queued", "·", ".", "90", 9},
	{"?", "of another status", "?", "?", "0", 8},
}

// lookUnknown is for statuses of later versions.
const lookUnknown = len(looks) - 1

var lookByStatus = func() map[windlass.Status]int {
	m := make(map[windlass.Status]int, len(looks))
	for i, l := range looks {
		m[l.status] = i
	}
	return m
}()

func lookOf(s windlass.Status) int {
	if i, ok := lookByStatus[s]; ok {
		return i
	}
	return lookUnknown
}
