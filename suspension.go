package windlass

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/internal/shorten"
)

// Suspension is what an operator has stored, and holds until it is taken back: the cordon of a node, by its
// name, or the pause of a type.
type Suspension struct {
	At time.Time `json:"at"`
	// Reason is for people, and By is who made it (WithCaller).
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
}

// String says since when and by whom, and why.
func (s *Suspension) String() string {
	text := "since " + s.At.Format(time.RFC3339)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// ParseSuspension parses a cordon or a pause, if there is one. One that cannot be read counts all the same, and says so
// as its reason.
func ParseSuspension(value []byte, there bool) *Suspension {
	if !there {
		return nil
	}
	var s Suspension
	if err := json.Unmarshal(value, &s); err != nil {
		s = Suspension{Reason: "unreadable: " + shorten.To(string(value), 80)}
	}
	return &s
}
