//go:build e2e && linux

package acceptance

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

func TestBroker_ARestartAtOnceInterruptsNoCommandAndLosesNoTask(t *testing.T) {
	f := loadedFleet(t)
	before := f.census.now()
	killed := f.kill(f.broker)
	f.startBroker()
	f.took("SIGKILL of the broker until it answers again", killed, f.eventually(soon, func() string { return f.missingNodes(fleetNodes) }))
	f.noneLost(fleetTasks)
	// Sessions that were not renewed in time would have ended by then.
	f.eventually(soon, func() string {
		if time.Since(killed) < 2*ttl {
			return "two TTLs have passed" // not yet
		}
		return ""
	})
	f.waitAllRun(fleetTasks)
	same := 0
	for id, r := range f.census.now() {
		if r.pid == before[id].pid && r.id == before[id].id {
			same++
		}
	}
	t.Logf("measured: %d of %d commands ran on as the same process", same, fleetTasks)
	if same < fleetTasks*9/10 {
		t.Errorf("only %d of %d commands ran on through the restart", same, fleetTasks)
	}
	f.noneExited()
}

func TestBroker_CommandsEndBeforeTheSessionCanWhileItStaysAway(t *testing.T) {
	f := loadedFleet(t)
	killed := f.kill(f.broker)
	gone := f.eventually(patience, func() string { return missing(len(f.census.now()), 0, "commands may be alive") })
	f.goneInTime("SIGKILL of the broker", killed, gone)
	f.eventually(4*ttl, func() string {
		if n := len(f.census.now()); n > 0 {
			t.Fatalf("%d commands are alive without a broker", n)
		}
		if time.Since(killed) < 3*ttl {
			return "it has been away for three TTLs" // not yet
		}
		return ""
	})
	f.noneExited()

	started := time.Now()
	f.startBroker()
	f.took("start of the broker until all tasks run again", started, f.waitAllRun(fleetTasks))
	f.noneLost(fleetTasks)
	f.took("start of the broker until the load is even", started, f.waitEven())
	f.noneExited()
}

func TestBroker_WhatIsSubmittedDuringARestartRunsAndIsNotLost(t *testing.T) {
	f := loadedFleet(t)
	const clients, each = 2, 25
	failures := make([]error, clients)
	var submitting sync.WaitGroup
	for c := range clients {
		submitting.Go(func() {
			for i := range each {
				if failures[c] == nil {
					failures[c] = f.submitUntilAccepted(fmt.Sprintf("during-%d-%02d", c, i))
				}
			}
		})
	}
	f.waitAtLeast(fleetTasks + 5)
	killed := f.kill(f.broker)
	f.startBroker()
	f.took("SIGKILL of the broker until it answers again", killed, f.eventually(soon, func() string { return f.missingNodes(fleetNodes) }))
	submitting.Wait()
	for _, err := range failures {
		must(t, err)
	}
	const all = fleetTasks + clients*each
	f.waitAllRun(all)
	f.noneLost(all)
	f.noneExited()
	f.startedAgain()
}

// waitAtLeast waits until at least so many tasks run.
func (f *fleet) waitAtLeast(want int) {
	f.t.Helper()
	f.eventually(patience, func() string {
		if n := len(f.census.now()); n < want {
			return missing(n, want, "tasks run")
		}
		return ""
	})
}

// submitUntilAccepted submits a task as a script would: when the broker is
// unavailable it tries again, and that the task exists by then is fine, since
// an answer may have been lost.
func (f *fleet) submitUntilAccepted(id string) error {
	const done = 0
	retry := time.NewTicker(pollEvery)
	defer retry.Stop()
	for tries, end := 1, time.Now().Add(patience); ; tries++ {
		_, errs, code := f.call("task", "submit", id, "--", "sleep", "1000000")
		switch {
		case code == done, code == exitConflict && tries > 1:
			return nil
		case code != exitUnavailable || time.Now().After(end):
			return fmt.Errorf("submit %s, attempt %d: exit code %d: %s", id, tries, code, errs)
		}
		<-retry.C
	}
}
