package events

import "github.com/windlass-go/windlass/internal/deaths"

// Death is the record of a node that vanished without notice: its process died, or was
// cut off for longer than its session lasts. A node that was only cut off takes the
// record back. Records are kept for an hour. The JSON of a Death is stable.
type Death = deaths.Death

// Lost is a claim that ended with the death of its node. Its JSON is stable.
type Lost = deaths.Lost
