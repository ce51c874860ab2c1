package deaths

import (
	"slices"
	"time"
)

// look is what a death says of a suspect.
type look struct {
	*entry
	// listed is true if the task was lost, recent if it had just been claimed. unknown is true if
	// the list has not all that was lost.
	listed, recent, unknown bool
}

// looks returns what deaths say of a task, in their order, the latest first, without those that
// another task explains.
func (b *Book) looks(task string, of Limits, deaths []*entry) (looks []look) {
	looks = make([]look, 0, len(deaths)+1)
	listed := b.byTask[task]
	for _, e := range deaths {
		for len(listed) > 0 && listed[len(listed)-1].in.place > e.place {
			listed = listed[:len(listed)-1]
		}
		switch l := len(listed) - 1; {
		case e.explained(task):
		case l >= 0 && listed[l].in == e && listed[l].token > of.Created:
			looks = append(looks, look{entry: e, listed: true, recent: listed[l].recent})
		default:
			looks = append(looks, look{entry: e, unknown: e.Claims > len(e.Lost)})
		}
	}
	return looks
}

// others returns the other deaths that count, the latest first.
func (b *Book) others(d *Death, now time.Time) (deaths []*entry) {
	for _, e := range slices.Backward(b.deaths) {
		if e.Incarnation != d.Incarnation && e.counts(now) && now.Sub(e.seen) < Window {
			deaths = append(deaths, e)
		}
	}
	return deaths
}

// seen is what deaths say of a task.
type seen struct {
	task  string
	of    Limits
	looks []look
	// died has those that list it.
	died []*entry
}

func newSeen(task string, of Limits, looks []look) seen {
	s := seen{task: task, of: of, looks: looks}
	for _, l := range looks {
		if l.listed {
			s.died = append(s.died, l.entry)
		}
	}
	return s
}

// suspect counts the deaths of a task, without some.
func (s seen) suspect(tasks int, without map[*entry]bool) suspect {
	looks := s.looks
	if len(without) > 0 {
		looks = slices.DeleteFunc(slices.Clone(looks), func(l look) bool { return without[l.entry] })
	}
	return suspectOf(s.task, s.of, tasks, looks)
}

// diedIn has the deaths of a task.
func (s seen) diedIn() map[*entry]bool {
	in := make(map[*entry]bool, len(s.died))
	for _, e := range s.died {
		in[e] = true
	}
	return in
}

// seenOf returns what a death and others say of the tasks that it lists.
func (b *Book) seenOf(d *Death, of Fleet, deaths []*entry, now time.Time) (all []seen) {
	this := &entry{Death: *d, seen: now}
	for i, l := range d.Lost {
		if limits, ok := of.Limits(l.Task); ok && l.Token > limits.Created {
			looks := b.looks(l.Task, limits, deaths)
			if d.Restarted {
				looks = slices.Insert(looks, 0, look{entry: this, listed: true, recent: i < d.Recent})
			}
			all = append(all, newSeen(l.Task, limits, looks))
		}
	}
	return all
}
