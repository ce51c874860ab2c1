package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/placement"
)

// RankStep is how much longer each next node in rank order waits before it claims a
// task in another's stead.
const RankStep = 250 * time.Millisecond

// Away is a node that is gone and is to be back. Its tasks are kept for it until then.
type Away struct {
	// Node is the node as it was.
	placement.Node
	// Until is when its tasks are kept no longer.
	Until time.Time
	// promised is set once its promise to be back was seen stored.
	promised bool
}

// Promised replaces the stored promises of nodes that are away, and returns the nodes whose
// promise is gone, and for which nothing is kept any more. A node that was seen to go has a
// time already.
func (f *Fleet) Promised(all []Away) (freed []string) {
	gone := maps.Clone(f.away)
	for _, a := range all {
		if was, ok := f.away[a.Name]; ok {
			a = was
		}
		delete(gone, a.Name)
		a.promised = true
		f.away[a.Name] = a
	}
	for name, a := range gone {
		if a.promised {
			freed = append(freed, name)
			delete(f.away, name)
		}
	}
	slices.Sort(freed)
	return freed
}

// Forsake drops what is kept for a node, and reports whether anything was.
func (f *Fleet) Forsake(node string) bool {
	_, away := f.away[node]
	delete(f.away, node)
	return away
}

// KeepsFor reports whether a node is away and is to be back.
func (f *Fleet) KeepsFor(node string) bool {
	_, away := f.away[node]
	return away
}

// counts reports whether a node, other than this one, is there or is to be back.
func (f *Fleet) counts(node string) bool { return f.KeepsFor(node) || f.Peer(node) != nil }

// ReservedUntil returns until when a task is left to the node that held it last,
// because that node asked for it and may be back soon; a past time means not at all.
// seen is when the task was first seen without an owner.
func (f *Fleet) ReservedUntil(last string, seen, now time.Time) time.Time {
	if last == "" || last == f.config.Name {
		return time.Time{}
	}
	if a, away := f.away[last]; away {
		if !a.Until.After(now) {
			delete(f.away, last)
		}
		return a.Until
	}
	switch p := f.Peer(last); {
	case p == nil || p.ReturnWithin == 0 || p.Draining || p.Cordoned:
		return time.Time{}
	case p.Returning:
		return seen.Add(p.ReturnWithin)
	}
	return seen.Add(RankStep) // its claims end before this node hears that it is gone itself
}
