package schedule

import "time"

// RankStep is how much longer each next node in rank order waits before it claims a
// task in another's stead.
const RankStep = 250 * time.Millisecond

// ReservedUntil returns until when a task is left to the node that held it last,
// because that node asked for it and may be back soon; a past time means not at all.
// seen is when the task was first seen without an owner.
func (f *Fleet) ReservedUntil(last string, seen, now time.Time) time.Time {
	if last == "" || last == f.config.Name {
		return time.Time{}
	}
	if until, away := f.away[last]; away {
		if !until.After(now) {
			delete(f.away, last)
		}
		return until
	}
	switch p := f.Peer(last); {
	case p == nil || p.ReturnWithin == 0 || p.Draining:
		return time.Time{}
	case p.Returning:
		return seen.Add(p.ReturnWithin)
	}
	return seen.Add(RankStep) // its claims end before this node hears that it is gone itself
}
