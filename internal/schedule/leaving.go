package schedule

import (
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/placement"
)

// leaving are the claims that this node gives away by its own decision. Their handlers
// are told to stop a few at a time, as fast as other nodes take the tasks. If all
// stopped at once, each task would stand still until its turn among the claims of
// thousands.
type leaving struct {
	// queue has those that will be told to stop, in order.
	queue []Departure
	// nextAt is when the next may be told.
	nextAt time.Time
	// stopped has those whose handler has returned, and since when, until another node
	// holds them.
	stopped map[string]time.Time
	// moving has those that are meant for another node, until the copy shows that this
	// one no longer holds them.
	moving map[string]moving
	// nextRound is the trigger for another round of balancing when these are gone; zero
	// for none.
	nextRound events.Trigger
}

type moving struct {
	to    string
	class *placement.Class
}

// Departure is a claim that this node gives away.
type Departure struct {
	// ID and Token are those of the claim.
	ID    string
	Token broker.Revision
	// To is the node that is to have the task, empty for any node.
	To string
	// Draining is true if it leaves because the node drains.
	Draining bool
}

// The pace of leaving: the largest number of tasks that stand still, and how many more
// are told to stop in each step. A task that no node takes is not waited for.
const (
	leavingWindow = 40
	leavingStep   = 5 * time.Millisecond
	leavingMax    = time.Second
)

// next returns those to be told to stop now.
func (l *leaving) next(now time.Time) (told []Departure) {
	if len(l.queue) == 0 || now.Before(l.nextAt) {
		return nil
	}
	l.nextAt = now.Add(leavingStep)
	if len(l.stopped) >= leavingWindow {
		for id, since := range l.stopped {
			if now.Sub(since) >= leavingMax {
				delete(l.stopped, id)
			}
		}
	}
	n := min(max(leavingWindow-len(l.stopped), 0), len(l.queue))
	told, l.queue = l.queue[:n:n], l.queue[n:]
	return told
}

// depart queues a claim to be given away to a node, or to any node if that is empty.
func (g *Giving) depart(h *Held, to string, draining bool, now time.Time) {
	g.board.Hold(h.ID, now)
	g.rules.Leaves(h.ID, to)
	if to != "" {
		g.leaving.moving[h.ID] = moving{to: to, class: h.Class}
		g.fleet.Hold(to, h.Class, 1)
	}
	g.leaving.queue = append(g.leaving.queue, Departure{ID: h.ID, Token: h.Token, To: to, Draining: draining})
}

// Departures returns the claims whose handlers are to be told to stop now.
func (g *Giving) Departures(now time.Time) []Departure { return g.leaving.next(now) }

// Returned reports that the handler of a claim which is given away has returned.
func (g *Giving) Returned(id string, now time.Time) { g.leaving.stopped[id] = now }

// Stay removes and returns what was queued to be given away.
func (g *Giving) Stay() (stays []Departure) {
	stays = g.leaving.queue
	for i := range stays {
		g.moved(stays[i].ID)
	}
	g.leaving.queue, g.leaving.nextRound = nil, 0
	return stays
}

// DropQueued drops what was queued to be given away: the node tells all its handlers to
// stop.
func (g *Giving) DropQueued() { g.leaving.queue = nil }

// moved removes a task from those on their way. After the last one it starts the next
// round of moves.
func (g *Giving) moved(id string) {
	l := &g.leaving
	m, ok := l.moving[id]
	if !ok {
		return
	}
	delete(l.moving, id)
	g.fleet.Hold(m.to, m.class, -1)
	g.triggers.arriving()
	if trigger := l.nextRound; len(l.moving) == 0 && trigger != 0 {
		l.nextRound, g.triggers.due = 0, trigger
	}
}

// Recount adds the tasks on their way to other nodes to a tally that starts again.
func (g *Giving) Recount() {
	for _, m := range g.leaving.moving {
		g.fleet.Hold(m.to, m.class, 1)
	}
}
