//go:build e2e && linux

package acceptance

import (
	"fmt"
	"maps"
	"time"
)

// quiet is for how long nothing may start for a fleet to count as at rest.
const quiet = time.Second

// waitQuiet waits until all tasks run and none has moved for a while.
func (f *fleet) waitQuiet(tasks int) {
	f.t.Helper()
	var last map[string]run
	var since time.Time
	f.eventually(patience, func() string {
		now := f.census.now()
		if !maps.EqualFunc(now, last, func(a, b run) bool { return a.id == b.id }) {
			last, since = now, time.Now()
		}
		if text := missing(len(now), tasks, "tasks run"); text != "" {
			return text
		}
		if time.Since(since) < quiet {
			return "nothing moves"
		}
		return ""
	})
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

// holds checks that something stays true for some time.
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

// undisturbed checks that for some time every run of before goes on.
func (f *fleet) undisturbed(d time.Duration, before map[string]run) {
	f.t.Helper()
	f.holds(d, func() string { return missing(f.sameRuns(before), len(before), "commands run on") })
	f.noneExited()
}

// goneInTime logs how long commands lived after their nodes lost the broker, and fails if
// it was longer than a session. The nodes count from a renewal that was before that; the
// second is for the walks through the processes, which are late themselves.
func (f *fleet) goneInTime(what string, since, gone time.Time) {
	f.t.Helper()
	f.took(what+" until all commands are gone", since, gone)
	if lived := gone.Sub(since); lived > ttl+time.Second {
		f.t.Errorf("%s: commands were alive %v later; the TTL is %v", what, lived, ttl)
	}
}

// pass waits until a moment lies some time in the past.
func (f *fleet) pass(since time.Time, d time.Duration) {
	f.t.Helper()
	f.eventually(d+soon, func() string {
		if time.Since(since) < d {
			return fmt.Sprintf("%v have passed", d)
		}
		return ""
	})
}

// of are the runs of one node.
func of(runs map[string]run, node string) map[string]run {
	some := maps.Clone(runs)
	maps.DeleteFunc(some, func(_ string, r run) bool { return r.node != node })
	return some
}
