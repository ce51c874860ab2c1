package balancer

import "time"

const (
	// movePauseMin is how long a task that was released above the release limit
	// and came back is left in peace. It doubles with every time, and beyond
	// movePauseMax there is no other.
	movePauseMin = time.Minute
	movePauseMax = time.Hour
	// movesMax bounds the tasks that are remembered.
	movesMax = 10_000
)

// moves remembers the tasks that this node released because it was above its
// release limit, so that one which nobody can hold does not go round for ever.
// It forgets them when they tell nothing any more: nodes came or went, someone
// asked, or the node was below the limit for movePauseMax.
type moves struct {
	byID map[string]move
	// calm is since when the node has been below the limit, zero if it is not.
	calm time.Time
}

// move is the last time that a task was released, and for how long not again.
type move struct {
	at    time.Time
	pause time.Duration
}

func (m *moves) forget() { clear(m.byID) }

// observe notes whether the node is above the limit.
func (m *moves) observe(now time.Time, above bool) {
	switch {
	case above:
		m.calm = time.Time{}
	case m.calm.IsZero():
		m.calm = now
	case now.Sub(m.calm) >= movePauseMax:
		m.forget()
	}
}

// mayMove tells whether a task may be released because of the limit.
func (m *moves) mayMove(id string, now time.Time) bool {
	last, moved := m.byID[id]
	return !moved || last.pause <= movePauseMax && now.Sub(last.at) >= last.pause
}

// note records that a task is released.
func (m *moves) note(id string, now time.Time) {
	if m.byID == nil || len(m.byID) >= movesMax {
		m.byID = map[string]move{}
	}
	m.byID[id] = move{at: now, pause: max(2*m.byID[id].pause, movePauseMin)}
}
