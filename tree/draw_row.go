package tree

import (
	"strings"
	"time"

	"github.com/windlass-go/windlass"
)

// errorRunesMax limits the part of an error that is drawn.
const errorRunesMax = 60

// row draws one node:
//
//	✗ alpha  processFile  failed after 12s: cannot open the file
func (a *artist) row(branch string, i int) {
	n := &a.f.nodes[i]
	l := looks[n.look]
	mark := l.mark
	if a.o.ASCII {
		mark = "[" + l.letter + "]"
	}
	name, jobType := labelOf(&n.job)
	a.line(branch, part{mark, l.ansi}, part{text: " " + a.clean(name) + "  "}, part{text: a.clean(jobType)},
		part{text: "  "}, part{a.statusWords(n), l.ansi}, part{text: a.details(n)})
}

// labelOf returns the name and type in a drawing. An invalid path is shown as it is.
func labelOf(j *JobInfo) (name, jobType string) {
	if j.Name == "" || j.Type == "" {
		return j.Path.segment(), "?"
	}
	return j.Name, j.Type
}

func (a *artist) clean(s string) string { return printable(s, a.o.ASCII) }

func (a *artist) statusWords(n *node) string {
	switch {
	case n.look == lookUnknown:
		return a.clean(string(n.job.Status))
	case n.stuck:
		return looks[n.look].words + " for good"
	}
	return looks[n.look].words
}

// details returns what follows the status.
func (a *artist) details(n *node) string {
	j := &n.job
	var b strings.Builder
	if j.Working() && j.Node != "" {
		b.WriteString(" on " + a.clean(j.Node))
	}
	if j.Status == windlass.StatusSleeping && known(j.Until) {
		b.WriteString(" until " + j.Until.UTC().Format("2006-01-02 15:04:05Z"))
	}
	b.WriteString(a.took(j))
	if j.Pending() {
		b.WriteString(a.waits(j))
	}
	if why := a.why(n); why != "" {
		b.WriteString(": " + why)
	}
	return b.String()
}

// took returns how long it ran, or has been running.
func (a *artist) took(j *JobInfo) string {
	if !known(j.ClaimedAt) {
		return ""
	}
	word, until := "", time.Time{}
	switch {
	case j.Ended() && known(j.FinishedAt):
		word, until = " after ", *j.FinishedAt
		if j.Completed() {
			word = " in "
		}
	case j.Status == windlass.StatusRunning:
		word, until = " for ", a.o.Now
	}
	// Two clocks may be at work here, so the difference can be negative.
	if until.IsZero() || until.Before(*j.ClaimedAt) {
		return ""
	}
	return word + span(until.Sub(*j.ClaimedAt))
}

// waits names what it waits for, without its ancestors: they are drawn above it.
func (a *artist) waits(j *JobInfo) string {
	first, others := "", 0
	for _, id := range j.BlockedBy {
		switch p := pathOf(id); {
		case above(p, j.Path):
		case first == "":
			first = string(p)
		default:
			others++
		}
	}
	switch {
	case first == "":
		return ""
	case others == 0:
		return ", waits for " + a.clean(first)
	}
	return ", waits for " + a.clean(first) + " and " + thousands(others) + " more"
}

// why returns the reason of a problem.
func (a *artist) why(n *node) string {
	j, text := &n.job, ""
	switch {
	case (j.Status == windlass.StatusFailed || j.Status == windlass.StatusFault) && len(j.Errors) > 0:
		text = j.Errors[len(j.Errors)-1].Error
	case j.Reason != "" && !j.Completed():
		text = j.Reason
	case n.stuck:
		text = blame(&a.f.nodes[n.culprit])
	}
	// Cut before escaping, because an error can be long, and after.
	text = cut(firstLine(text), errorRunesMax, a.strokes.more)
	return cut(a.clean(text), errorRunesMax, a.strokes.more)
}

// blame says why nothing below an ancestor runs.
func blame(n *node) string {
	did := " is blocked for good"
	switch n.job.Status {
	case windlass.StatusFailed:
		did = " failed"
	case windlass.StatusKilled:
		did = " was killed"
	}
	return n.job.Path.segment() + did
}
