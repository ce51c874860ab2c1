//go:build e2e && linux

package acceptance

import (
	"fmt"
	"maps"
	"time"
)

// quiet is how long no task may start for a fleet to count as at rest.
const quiet = time.Second

// stillness measures for how long the same runs have been alive.
type stillness struct {
	last  map[string]run
	since time.Time
}

func (s *stillness) lasted(now map[string]run) time.Duration {
	if !maps.EqualFunc(now, s.last, func(a, b run) bool { return a.id == b.id }) {
		s.last, s.since = now, time.Now()
	}
	return time.Since(s.since)
}

// waitQuiet waits until all tasks run and none has moved for a while.
func (f *fleet) waitQuiet(tasks int) {
	f.t.Helper()
	var still stillness
	f.eventually(patience, func() string {
		now := f.census.now()
		lasted := still.lasted(now)
		if len(now) == tasks && lasted < quiet {
			return "nothing moves"
		}
		return missing(len(now), tasks, "tasks run")
	})
}

// recovered waits until a fleet is at rest, and checks that nothing was lost.
func (f *fleet) recovered(tasks int) {
	f.t.Helper()
	f.waitQuiet(tasks)
	f.noneLost(tasks)
	f.noneExited()
}

// noneAlive returns a problem while a command is alive.
func (f *fleet) noneAlive() string {
	return missing(len(f.census.now()), 0, "commands may be alive")
}

// waitNone waits until no command is alive.
func (f *fleet) waitNone() time.Time {
	f.t.Helper()
	return f.eventually(patience, f.noneAlive)
}

// sameRuns counts the runs of before that are alive.
func (f *fleet) sameRuns(before map[string]run) int {
	same := 0
	for task, now := range f.census.now() {
		if now.id == before[task].id {
			same++
		}
	}
	return same
}

// mostRanOn fails if many of the runs of before have ended.
func (f *fleet) mostRanOn(before map[string]run) {
	f.t.Helper()
	same := f.sameRuns(before)
	f.t.Logf("measured: %d of %d commands ran on as the same process", same, len(before))
	if same < len(before)*9/10 {
		f.t.Errorf("only %d of %d commands ran on", same, len(before))
	}
}

// holds checks for some time that wrong returns nothing.
func (f *fleet) holds(d time.Duration, wrong func() string) {
	f.t.Helper()
	began := time.Now()
	f.eventually(d+soon, func() string {
		if text := wrong(); text != "" {
			f.t.Errorf("after %v: %s", time.Since(began).Round(time.Millisecond), text)
			return ""
		}
		if time.Since(began) < d {
			return fmt.Sprintf("%v have passed", d)
		}
		return ""
	})
}

// undisturbed checks that every run of before continues for some time.
func (f *fleet) undisturbed(d time.Duration, before map[string]run) {
	f.t.Helper()
	f.holds(d, func() string { return missing(f.sameRuns(before), len(before), "commands run on") })
	f.noneExited()
}

// goneInTime logs how long commands lived after their nodes lost the broker, and fails if
// it was longer than a session. The nodes count from a renewal before that. The extra second
// is for the delay of the walks through the processes.
func (f *fleet) goneInTime(what string, since, gone time.Time) {
	f.t.Helper()
	f.took(what+" until all commands are gone", since, gone)
	if lived := gone.Sub(since); lived > ttl+time.Second {
		f.t.Errorf("%s: commands were alive %v later; the TTL is %v", what, lived, ttl)
	}
}

// of returns the runs of one node.
func of(runs map[string]run, node string) map[string]run {
	some := maps.Clone(runs)
	maps.DeleteFunc(some, func(_ string, r run) bool { return r.node != node })
	return some
}
