package balancer

import (
	"time"

	"github.com/windlass-go/windlass"
)

const (
	// movePauseMin is how long a task that was released and came back is left alone.
	// The time doubles with every return, and beyond movePauseMax the task is not
	// released again.
	movePauseMin = time.Minute
	movePauseMax = time.Hour
	// movesMax limits the tasks that are remembered.
	movesMax = 10_000
)

// moves remembers the tasks that this node released because it had too many, so that a
// task which no other node can hold does not move in circles. It forgets them when they
// no longer matter: nodes came or went, a command asked for balancing, or the node had
// not too many for movePauseMax.
type moves struct {
	byID map[string]move
	// calm is since when the node has not had too many, zero if it has.
	calm time.Time
}

// move records the last time that a task was to be released, with the token of its
// claim, and how long not to release it again. If the task still has that token, it was
// not released: others of its type stand for it, or it was told to stay.
type move struct {
	at    time.Time
	token int64
	pause time.Duration
}

func (m *moves) forget() { clear(m.byID) }

// observe records whether the node has too many tasks.
func (m *moves) observe(now time.Time, tooMany bool) {
	switch {
	case tooMany:
		m.calm = time.Time{}
	case m.calm.IsZero():
		m.calm = now
	case now.Sub(m.calm) >= movePauseMax:
		m.forget()
	}
}

// youngest picks the n movable tasks that were started last, and records them. running
// has the longest running first.
func (m *moves) youngest(running []windlass.RunningTask, now time.Time, n int) (ids []string) {
	for i := len(running) - 1; i >= 0 && len(ids) < n; i-- {
		t := running[i]
		last, moved := m.byID[t.ID]
		next := move{at: now, token: t.Token, pause: max(2*last.pause, movePauseMin)}
		switch {
		case moved && last.token == t.Token:
			next.pause = last.pause
		case moved && (last.pause > movePauseMax || now.Sub(last.at) < last.pause):
			continue
		}
		if m.byID == nil || len(m.byID) >= movesMax {
			m.byID = map[string]move{}
		}
		m.byID[t.ID] = next
		ids = append(ids, t.ID)
	}
	return ids
}
