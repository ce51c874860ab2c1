package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBoot_NeverGoesBack(t *testing.T) {
	last := Boot()
	for range 1000 {
		now := Boot()
		if now < last {
			t.Fatalf("went from %v to %v", last, now)
		}
		last = now
	}
}

func TestProcess_FollowsVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := Clock(Process).Read()
		time.Sleep(time.Hour)
		now := Clock(Process).Read()
		if boot, day := now.Boot-start.Boot, now.Day-start.Day; boot != time.Hour || day != time.Hour {
			t.Errorf("an hour of virtual time read as %v and %v", boot, day)
		}
	})
}

func TestReading_S2_WhatPassedIsWhatTheClockSaysThatSaysMore(t *testing.T) {
	earlier := Reading{Boot: 10, Day: 1000}
	for now, want := range map[Reading]time.Duration{
		{Boot: 12, Day: 1002}: 2,
		{Boot: 12, Day: 1060}: 60, // stood still unnoticed, and then was set
		{Boot: 70, Day: 1002}: 60, // was suspended, and not set
		{Boot: 12, Day: 400}:  2,  // set back
	} {
		if got := now.Since(earlier); got != want {
			t.Errorf("%+v since %+v: %d, want %d", now, earlier, got, want)
		}
	}
}
