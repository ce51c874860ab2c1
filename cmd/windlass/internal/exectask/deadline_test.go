package exectask

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

func TestDeadline_S2_ATimeOfDayThatIsSetForwardCountsAsTimeThatPassed(t *testing.T) {
	at := func(boot, day time.Duration) clock.Reading {
		return clock.Reading{Boot: boot * time.Second, Day: day * time.Second}
	}
	d := newDeadline(110*time.Second, 114*time.Second, at(100, 5000))
	for _, c := range []struct {
		what       string
		now        clock.Reading
		stop, hard time.Duration // seconds
	}{
		{"both went on", at(103, 5003), 110, 114},
		{"set back", at(104, 4000), 110, 114},
		{"set right again", at(105, 5005), 110, 114},
		{"set forward", at(106, 5009), 107, 111},
		{"looked at once more", at(106, 5009), 107, 111},
		{"set forward again", at(107, 5070), 47, 51},
	} {
		d.look(c.now)
		if d.Stop != c.stop*time.Second || d.Hard != c.hard*time.Second {
			t.Errorf("%s: stop %v and hard %v, want %ds and %ds", c.what, d.Stop, d.Hard, c.stop, c.hard)
		}
	}
}

func TestDeadline_TellsNobodyToStopAfterTheHardDeadline(t *testing.T) {
	if d := newDeadline(5, 3, clock.Reading{}); d.Stop != 3 || d.Hard != 3 {
		t.Errorf("%+v", d)
	}
}
