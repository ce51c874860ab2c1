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
	// Ahead is by how much the time of day was ahead of Boot when they were set.
	Ahead time.Duration `json:"ahead"`
}

func newDeadline(stop, hard time.Duration, now clock.Reading) *deadline {
	return &deadline{Stop: min(stop, hard), Hard: hard, Ahead: now.Day - now.Boot}
}

// look brings the deadline nearer by what the time of day was set forward since it
// was set: a machine that its host stopped for a while learns of that time by this
// alone.
func (d *deadline) look(now clock.Reading) {
	if jump := now.Day - now.Boot - d.Ahead; jump > 0 {
		d.Stop -= jump
		d.Hard -= jump
		d.Ahead += jump
	}
}
