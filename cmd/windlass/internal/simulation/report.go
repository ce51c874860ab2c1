package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
)

// Report has the results of one seed or of many.
type Report struct {
	// Virtual is the simulated time, Real the time that the simulation took.
	Virtual, Real time.Duration
	// Seeds is the number of seeds.
	Seeds int
	// History has the counts of the event log.
	History history.Counts
	// Counts counts the faults by name, and other things.
	Counts map[string]int
	// Lost counts the tasks that were acknowledged and do not exist in the end.
	Lost int
	// Refused counts the writes outside of Windlass that were refused as stale.
	Refused int
	// Undecided counts the tasks whose answers could not be ordered in time.
	Undecided int
	// ByHand is true if an operator broke the assumptions.
	ByHand bool
	// Longest is the longest overlap under the assumptions, LongestOutside where an
	// operator broke them; negative for the shortest gap.
	Longest, LongestOutside *time.Duration
	// Settled is the longest time that it took to settle after a storm.
	Settled time.Duration
	// TookOver has the times of take-overs, beyond the TTL, by kind.
	TookOver map[string][]time.Duration

	plans map[*faulty.Broker]*faulty.Plan
}

func newReport() *Report {
	return &Report{Counts: map[string]int{}, TookOver: map[string][]time.Duration{}, plans: map[*faulty.Broker]*faulty.Plan{}}
}

// longer returns the longer of two times, of which nil ones do not count.
func longer(a, b *time.Duration) *time.Duration {
	if b == nil || a != nil && *a >= *b {
		return a
	}
	return b
}

// Add adds another report to this one.
func (r *Report) Add(other *Report) {
	r.Virtual += other.Virtual
	r.Real += other.Real
	r.Seeds += other.Seeds
	r.History.Revisions += other.History.Revisions
	r.History.Events += other.History.Events
	r.History.Submitted += other.History.Submitted
	r.History.Grants += other.History.Grants
	r.History.HandOvers += other.History.HandOvers
	r.History.Completed += other.History.Completed
	r.History.Duplicated += other.History.Duplicated
	r.History.Forgotten += other.History.Forgotten
	r.History.Led += other.History.Led
	for name, n := range other.Counts {
		r.Counts[name] += n
	}
	r.Lost += other.Lost
	r.Refused += other.Refused
	r.Undecided += other.Undecided
	r.Longest, r.LongestOutside = longer(r.Longest, other.Longest), longer(r.LongestOutside, other.LongestOutside)
	r.Settled = max(r.Settled, other.Settled)
	for kind, times := range other.TookOver {
		r.TookOver[kind] = append(r.TookOver[kind], times...)
	}
}

// String prints the report as tables of Markdown.
func (r *Report) String() string {
	var b strings.Builder
	row := func(what string, value any) { fmt.Fprintf(&b, "| %s | %v |\n", what, value) }
	fmt.Fprintf(&b, "\n| | |\n|---|---|\n")
	row("virtual time", fmt.Sprintf("%.1f h", r.Virtual.Hours()))
	row("real time", r.Real.Round(time.Second))
	row("seeds", r.Seeds)
	row("revisions of the store checked", r.History.Revisions)
	row("tasks submitted", r.History.Submitted)
	row("grants", r.History.Grants)
	row("of these, hand-overs", r.History.HandOvers)
	row("tasks completed", r.History.Completed)
	row("ended tasks forgotten", r.History.Forgotten)
	row("writes of leaders of elections", r.History.Led)
	row("writes refused because the claim was over (Windlass)", r.Counts[countFenced])
	row("writes refused because the token was old (outside)", r.Refused)
	row("**lost tasks**", r.Lost)
	row("**duplicated completions**", r.History.Duplicated)
	row("**longest overlap under the assumptions**", describe(r.Longest))
	row("longest overlap where an operator broke them", describe(r.LongestOutside))
	row("longest until all was well after a storm", r.Settled.Round(time.Millisecond))
	row("tasks whose answers took too long to order", r.Undecided)
	fmt.Fprintf(&b, "\n| fault | times |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Counts)) {
		if name != countFenced {
			row(name, r.Counts[name])
		}
	}
	fmt.Fprintf(&b, "\n| take-over after | measured | p50 | p99 | longest |\n|---|---|---|---|---|\n")
	for _, kind := range takeOvers {
		times := slices.Sorted(slices.Values(r.TookOver[kind.name]))
		if n := len(times); n > 0 {
			fmt.Fprintf(&b, "| %s | %d | %v | %v | %v |\n", kind.name, n,
				times[n/2].Round(10*time.Millisecond), times[n*99/100].Round(10*time.Millisecond), times[n-1].Round(10*time.Millisecond))
		}
	}
	return b.String()
}

// describe prints an overlap, or a gap if it is negative.
func describe(d *time.Duration) string {
	switch {
	case d == nil:
		return "-"
	case *d > 0:
		return d.Round(time.Millisecond).String()
	default:
		return fmt.Sprintf("none; the shortest gap between two runs was %v", -d.Round(time.Microsecond))
	}
}
