package statemachine

import "time"

// Restarts says how often the handler of a task has started again what it runs, since its
// start. It is for people; nothing is decided by it.
type Restarts struct {
	// Count is how often, InARow how often since what it runs has lasted for long.
	Count  int `json:"count"`
	InARow int `json:"in_a_row"`
	// Since is the end before the first restart of those in a row; zero if there is none.
	Since time.Time `json:"since,omitzero"`
	// LastEnd is how what it runs has ended last, the beginning of it,
	// and LastAt is when.
	LastEnd string    `json:"last_end"`
	LastAt  time.Time `json:"last_at"`
	// Next is when it is started again after that.
	Next time.Time `json:"next"`
}

// RestartsMany is how many restarts in a row are a loop.
const RestartsMany = 5

// Looping reports whether it is started again and again and gets nowhere.
func (r Restarts) Looping() bool { return r.InARow >= RestartsMany }
