// Package returns has the promises of nodes that are away to be back.
package returns

import (
	"encoding/json"
	"time"
)

// Promise is kept under nodes/<node>/return while a node is away whose tasks the others
// are to leave alone for a while.
type Promise struct {
	// Until is when they may take them, by the clock of whoever wrote the promise.
	Until time.Time `json:"until"`
	// Info is the last registration of the node.
	Info json.RawMessage `json:"info"`
}

// Encode returns the promise as it is stored.
func (p Promise) Encode() []byte {
	value, err := json.Marshal(p)
	if err != nil {
		return nil // cannot be: a registration is JSON
	}
	return value
}

// Parse parses a stored promise. One that lasts longer than most from now was written by a clock
// that is ahead, and counts as one that lasts so long.
func Parse(value []byte, most time.Duration, now time.Time) (p Promise, err error) {
	if err := json.Unmarshal(value, &p); err != nil {
		return Promise{}, err
	}
	if limit := now.Add(most); p.Until.After(limit) {
		p.Until = limit
	}
	return p, nil
}
