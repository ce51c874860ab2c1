package inspect

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/returns"
	"github.com/windlass-go/windlass/internal/schedule"
)

// leave reads who is away, and counts what is kept for them.
func (s *survey) leave(nodes *mirror.Nodes, now time.Time) {
	for _, n := range nodes.Away() {
		p, err := returns.Parse(n.Return.Value, windlass.ReturnWithinMax, now)
		if err != nil || !now.Before(p.Until) {
			continue
		}
		var info windlass.NodeInfo
		_ = json.Unmarshal(p.Info, &info) // of one that cannot be read only the name is known
		info.Name = n.Name
		s.away[n.Name] = schedule.Away{Node: info.Placed(), Until: p.Until}
	}
	s.countKept(now, 1)
}

// countKept adds what is kept to the tally, by times.
func (s *survey) countKept(now time.Time, by int) {
	if len(s.away) == 0 {
		return
	}
	for t := range s.tasks.All() {
		k := s.kinds.OfTask(t)
		if a := s.keptFor(t, now); a != nil && k.Claimable(t, k.Blockers(t.ID), s.tasks, now).Open {
			s.tally.Add(a.Name, k.Class, by)
		}
	}
}

// comeBack counts nodes that are away as back if they are among some: what was kept for them is
// then open.
func (s *survey) comeBack(nodes []windlass.NodeInfo) {
	now := time.Now()
	s.countKept(now, -1)
	for i := range nodes {
		delete(s.away, nodes[i].Name)
	}
	s.countKept(now, +1)
}

// keptFor returns the node that a task is kept for, nil for none.
func (s *survey) keptFor(t *mirror.Task, now time.Time) *schedule.Away {
	if a, away := s.away[t.Last]; away && !t.Owned() && now.Before(a.Until) {
		return &a
	}
	return nil
}
