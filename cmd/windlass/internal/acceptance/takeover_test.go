//go:build e2e && linux

package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"
)

// takeoverKinds are the ways to end a node for which the take-over is measured.
var takeoverKinds = []string{"kill -9", "freeze", "cut off", "clean stop"}

// measure ends one node while all others are healthy, and records for each of its endless tasks
// how long it did not run: beyond the TTL, or from the start for a clean stop.
func (s *soak) measure(kind string) {
	s.t.Helper()
	before := s.census.now()
	victim := s.anyNode(func(c *citizen) bool {
		return slices.ContainsFunc(endlessTasks(), func(id string) bool { return before[id].node == c.name })
	})
	if victim == nil {
		return // nobody runs anything, which settle would not have let through
	}
	at := time.Now()
	until := at.Add(settleMax) // calm comes before
	beyond := ttl
	switch kind {
	case "kill -9":
		s.kill(victim.process)
		victim.down, victim.downUntil = true, until
	case "freeze":
		s.signal(victim.process, syscall.SIGSTOP)
		victim.frozen, victim.frozenUntil = true, until
	case "cut off":
		s.net.cut(victim.name, silence)
		victim.cut, victim.cutUntil = true, until
	case "clean stop":
		s.signal(victim.process, syscall.SIGTERM)
		victim.stopping, victim.stopBy, victim.downUntil = true, at.Add(stopLimit), until
		beyond = 0
	}
	var times []time.Duration
	s.eventually(patience, func() string {
		s.tend(time.Now())
		times = times[:0]
		now := s.census.now()
		for id, r := range of(before, victim.name) {
			if !isEndless(id) {
				continue
			}
			if now[id].id == "" || now[id].id == r.id {
				return fmt.Sprintf("seed %d: %s: task %s runs elsewhere", s.seed, kind, id)
			}
			times = append(times, now[id].first.Sub(at)-beyond)
		}
		return ""
	})
	s.takeovers[kind] = append(s.takeovers[kind], times...)
}

func (s *soak) longestTakeover(kind string) time.Duration {
	if len(s.takeovers[kind]) == 0 {
		return 0
	}
	return slices.Max(s.takeovers[kind]).Round(time.Millisecond)
}

// report is what the soak has found, as Markdown.
func (s *soak) report() string {
	var b strings.Builder
	row := func(what string, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	grants, handOvers, doubled, _ := s.ledger.sums()
	row("what", "measured")
	row("---", "---")
	row("real time", "%.2f h", time.Since(s.began).Hours())
	row("seed", "%d", s.seed)
	row("nodes, members of "+s.store.kind()+", session TTL", "%d, %d, %v", soakNodes, s.store.size(), ttl)
	total := 0
	for _, n := range s.injected {
		total += n
	}
	row("faults", "%d", total)
	for _, kind := range slices.Sorted(maps.Keys(s.injected)) {
		row("· "+kind, "%d", s.injected[kind])
	}
	row("tasks: endless, finite", "%d, %d", soakEndless, s.audited)
	row("submissions that had to be repeated", "%d", s.stream.repeats)
	row("starts of nodes refused: name held, broker away", "%d, %d", s.refusals[exitConflict], s.refusals[exitUnavailable])
	row("claims granted", "%d", grants)
	row("· of a task that had been granted before", "%d", handOvers)
	row("writes of old claims refused", "%d", s.fenced)
	row("tasks lost", "%d", len(s.lost))
	row("completions doubled", "%d", len(doubled))
	row("commands that ended unrecorded and ran again", "%d", s.again)
	row("overlaps of two runs of a task", "%d", len(s.census.overlaps))
	row("largest overlap of two runs (below zero: a gap)", "%v, of %d hand-overs seen", -s.census.closest.Round(time.Millisecond), s.census.observed)
	for _, kind := range takeoverKinds {
		times := slices.Clone(s.takeovers[kind])
		if len(times) == 0 {
			continue
		}
		slices.Sort(times)
		at := func(p float64) time.Duration { return times[int(p*float64(len(times)-1))].Round(time.Millisecond) }
		what := "take-over beyond the TTL after " + kind
		if kind == "clean stop" {
			what = "take-over after a clean stop"
		}
		row(what+": p50, p99, max", "%v, %v, %v of %d", at(0.5), at(0.99), at(1), len(times))
	}
	return b.String()
}
