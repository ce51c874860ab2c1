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
	f.pass(killed, 2*ttl) // sessions that were not renewed in time have ended by then
	f.waitAllRun(fleetTasks)
	f.mostRanOn(before)
	f.noneExited()
}

func TestBroker_CommandsEndBeforeTheSessionCanWhileItStaysAway(t *testing.T) {
	f := loadedFleet(t)
	killed := f.kill(f.broker)
	f.goneInTime("SIGKILL of the broker", killed, f.waitNone())
	f.holds(3*ttl-time.Since(killed), f.noneAlive)
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
	f.until(patience, fmt.Sprintf("%d tasks run", want), func() bool { return len(f.census.now()) >= want })
}

// submitUntilAccepted submits a task as a script would: it retries while the broker is
// unavailable. A retry may find that the task exists, because an answer was lost.
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
