package exectask

import (
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// deadline is until when runs may live. Node and supervisor read the same clocks.
type deadline struct {
	// Stop and Hard are readings of Boot. Invariant: Stop <= Hard.
	Stop time.Duration `json:"stop"`
	Hard time.Duration `json:"hard"`
	// Ahead is the time of day minus Boot when they were set.
	Ahead time.Duration `json:"ahead"`
}

func newDeadline(stop, hard time.Duration, now clock.Reading) *deadline {
	return &deadline{Stop: min(stop, hard), Hard: hard, Ahead: now.Day - now.Boot}
}

// look brings the deadline nearer by as much as the time of day was set forward since the
// deadline was set: a virtual machine that its host stopped learns of that time only so.
func (d *deadline) look(now clock.Reading) {
	if jump := now.Day - now.Boot - d.Ahead; jump > 0 {
		d.Stop -= jump
		d.Hard -= jump
		d.Ahead += jump
	}
}
