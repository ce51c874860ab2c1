package windlass

import (
	"context"
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
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

// suspend writes a cordon, or the pause of a type.
func suspend(ctx context.Context, key, reason string) broker.Op {
	value, err := json.Marshal(Suspension{At: time.Now().UTC(), Reason: reason, By: Caller(ctx)})
	if err != nil {
		value = nil // cannot be; it counts all the same
	}
	return broker.Put(key, value)
}

// cordonOf reads a node's cordon, nil if it has none. An unreadable one is a cordon.
func cordonOf(n *mirror.Node) *Suspension {
	if !n.Cordoned {
		return nil
	}
	return ParseSuspension(n.Cordon)
}

// ParseSuspension parses a stored cordon or pause. One that cannot be read says so as its reason.
func ParseSuspension(value []byte) *Suspension {
	var s Suspension
	if err := json.Unmarshal(value, &s); err != nil {
		s = Suspension{Reason: "unreadable: " + shorten.To(string(value), 80)}
	}
	return &s
}
