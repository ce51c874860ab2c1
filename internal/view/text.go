package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/statemachine"
)

// Printable replaces characters that may move the cursor of a terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, s)
}

// Tags is the tags of a task on a line, in the order of their keys.
func Tags(tags map[string]string) string {
	pairs := make([]string, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, key+"="+tags[key])
	}
	return strings.Join(pairs, ", ")
}

// Age is the time since at for people, in one unit; "-" if at is not known.
func Age(at *time.Time, now time.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return Span(now.Sub(*at))
}

// Ago is Age as a statement, such as "5m ago".
func Ago(at *time.Time, now time.Time) string {
	if age := Age(at, now); age != "-" {
		return age + " ago"
	}
	return "-"
}

// Span is a duration in one unit, rounded down; one below zero counts as zero.
func Span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Size is a number of bytes in the largest unit that it has at least one of.
func Size(bytes int64) string {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	switch n := float64(bytes); {
	case bytes >= gib:
		return fmt.Sprintf("%.1f GiB", n/gib)
	case bytes >= mib:
		return fmt.Sprintf("%.1f MiB", n/mib)
	case bytes >= kib:
		return fmt.Sprintf("%.0f KiB", n/kib)
	default:
		return fmt.Sprintf("%d B", bytes)
	}
}

// Percent is the share of a part, rounded down: it is 100 only if nothing is left.
func Percent(part, total int) string {
	permille := 0
	if total > 0 {
		permille = 1000 * part / total
	}
	return fmt.Sprintf("%d.%d%%", permille/10, permille%10)
}

// OrDash is a text, or a dash for none.
func OrDash(s string) string { return cmp.Or(s, "-") }

// ErrorCount is how many errors of a task are known.
func ErrorCount(t windlass.TaskInfo) int { return max(len(t.Errors), t.Failures) }

// Errors is ErrorCount, or, for a task that a number of errors fails, how many count and
// that number.
func Errors(t windlass.TaskInfo) string {
	if t.Failures > 0 && t.FailuresMax > 0 {
		return fmt.Sprintf("%d/%d", t.Failures, t.FailuresMax)
	}
	return strconv.Itoa(ErrorCount(t))
}

// Restarts says how often the handler of a task has started again what it runs; empty if it
// never has.
func Restarts(r *statemachine.Restarts, now time.Time) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d, the last after: %s", r.Count, r.LastEnd)
	if r.InARow > 0 {
		text = fmt.Sprintf("%d, of them %d in a row for %s, the last after: %s", r.Count, r.InARow, Span(now.Sub(r.Since)), r.LastEnd)
	}
	if wait := r.Next.Sub(now); wait > 0 {
		text += "; again in " + Span(wait)
	}
	return text
}

// Verdict says whether a node can take the task, and why.
func Verdict(e inspect.Explanation, n inspect.Verdict) string {
	switch {
	case n.Node == e.Node:
		return n.Why
	case n.Takes:
		return "can take it: " + n.Why
	}
	return "cannot take it: " + n.Why
}

// EventName is the event of an entry, marked if it is an interruption.
func EventName(e statemachine.HistoryEntry) string {
	if e.Interruption {
		return string(e.Event) + " (interruption)"
	}
	return string(e.Event)
}
