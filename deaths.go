package windlass

import (
	"github.com/windlass-go/windlass/internal/deaths"
)

// Limits of Retry.Deaths.
const (
	// DeathsDefault is how many deaths set a task aside by default.
	DeathsDefault = deaths.CountDefault
	// DeathsMax is the maximum of Retry.Deaths.
	DeathsMax = deaths.CountMax
)

// deathsLimit returns how many deaths set a task aside; zero means that no number does.
func (s *Spec) deathsLimit() int {
	switch {
	case s.Retry == nil || s.Retry.Deaths == 0:
		return DeathsDefault
	case s.Retry.Deaths < 0:
		return 0
	}
	return s.Retry.Deaths
}
