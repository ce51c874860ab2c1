package schedule

import (
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/keys"
)

// Settle is how long an imbalance that no join or leave caused must last before tasks
// move for it, and how long a task must have been running to be moved then. Finite
// tasks that come and go unevenly are best left alone.
const Settle = 10 * time.Second

// ShortLivedMax limits the types that a node reports as short-lived.
const ShortLivedMax = 100

const (
	// shortLivedMax is the longest time from the claim until the handler returns for
	// which the tasks of a type are short-lived: other nodes would learn of a change of
	// the load after it is over.
	shortLivedMax = 500 * time.Millisecond
	// shortLivedAfter is how many of them must have ended before the type is reported.
	// It is early, because their comings and goings are seen at different times.
	shortLivedAfter = 4
	// surelyAfter is how many must have ended before running ones no longer count as
	// load that could be moved: others of the type may last.
	surelyAfter = 32
	// endsSoonAfter is how many must have ended before the others are left alone.
	endsSoonAfter = 8
	// typesMax limits the types that are observed for it.
	typesMax = 1000

	// nameEvery is the shortest time between two decisions of a node on which types it
	// reports: a decision checks all observed types, and a change costs every node a
	// message.
	nameEvery = time.Second
	// namedAgainAfter is how long the tasks of a type must not have taken long before
	// it is reported again, so that a type with tasks of both sorts does not alternate.
	namedAgainAfter = time.Minute
	// namedFor is how long a type is reported after a task of it has ended here. Tasks
	// that never end must not be treated as short-lived forever because some did end.
	namedFor = 10 * time.Minute
)

// lifetimes has how long the tasks of a type have taken recently on this node, and the
// types that nodes report as short-lived.
//
// The placement of a task depends on whether its type is short-lived, so nodes must
// agree about it. A type is short-lived for a node if the node itself or a registered
// peer reports it. What a node has observed decides only what it reports. If it could
// overrule the reports of others, it would place tasks differently from them as long as
// both last.
type lifetimes struct {
	byType map[string]*lifetime
	// surely has the types whose tasks surely are short-lived.
	surely map[string]bool

	// named lists the types that this node reports, sorted.
	named []string
	// changed is set when the report may have to change. namedAt is when it was last
	// decided, lapseAt when a type may have to be dropped from it.
	changed          bool
	namedAt, lapseAt time.Time
	// shortLived has the types that any node reports.
	shortLived map[string]bool
}

type lifetime struct {
	mean  time.Duration
	ended int
	// endedAt is when a task last ended, lastedAt when the mean was last too long.
	endedAt, lastedAt time.Time
}

// Ended records how long a task took that has ended on this node. A single long one
// counts: most that are like it may have just begun.
func (f *Fleet) Ended(taskType string, took time.Duration, now time.Time) {
	l := &f.lifetimes
	t := l.byType[taskType]
	if t == nil {
		if l.byType == nil || len(l.byType) >= typesMax {
			l.forget()
		}
		t = &lifetime{mean: took}
		l.byType[taskType] = t
	}
	t.ended++
	t.mean += (min(took, 2*Settle) - t.mean) / 16
	if t.endedAt = now; t.mean >= shortLivedMax {
		t.lastedAt = now
		delete(l.surely, taskType)
	} else if t.ended >= surelyAfter {
		l.surely[taskType] = true
	}
	if _, named := slices.BinarySearch(l.named, taskType); named != t.isToBeNamed(now) {
		l.changed = true
	}
}

// forget forgets all types except those that are reported.
func (l *lifetimes) forget() {
	byType := map[string]*lifetime{}
	l.surely = map[string]bool{}
	for _, name := range l.named {
		byType[name] = l.byType[name]
	}
	l.byType = byType
}

// isToBeNamed reports whether a type is short-lived by this node's observations.
func (t *lifetime) isToBeNamed(now time.Time) bool {
	return t.ended >= shortLivedAfter && t.mean < shortLivedMax && now.Sub(t.endedAt) < namedFor &&
		(t.lastedAt.IsZero() || now.Sub(t.lastedAt) >= namedAgainAfter)
}

// Named returns the types for this node to report as short-lived, sorted. changed is
// true if the set differs from before. They take effect here at once, and elsewhere
// once they are published.
func (f *Fleet) Named(now time.Time) (types []string, changed bool) {
	l := &f.lifetimes
	if at := f.NextNamed(); at.IsZero() || now.Before(at) {
		return l.named, false
	}
	l.changed, l.lapseAt, l.namedAt = false, time.Time{}, now
	var others []string
	for name, t := range l.byType {
		if !t.isToBeNamed(now) {
			continue
		}
		if _, named := slices.BinarySearch(l.named, name); named {
			types = append(types, name)
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(others) // those that are named stay, whatever comes
	types = append(types, others[:min(len(others), ShortLivedMax-len(types))]...)
	slices.Sort(types)
	for _, name := range types {
		l.lapseAt = soonest(l.lapseAt, l.byType[name].endedAt.Add(namedFor))
	}
	if slices.Equal(types, l.named) {
		return types, false
	}
	l.named = types
	f.unite()
	return types, true
}

// NextNamed returns when the result of Named may change by itself, zero for never.
func (f *Fleet) NextNamed() time.Time {
	l := &f.lifetimes
	switch {
	case l.changed:
		return later(l.namedAt.Add(nameEvery), longAgo)
	case l.lapseAt.IsZero():
		return time.Time{}
	}
	return later(l.lapseAt, l.namedAt.Add(nameEvery))
}

// unite collects the types that any node reports, and reports whether the set has
// changed.
func (f *Fleet) unite() (changed bool) {
	l := &f.lifetimes
	named := map[string]bool{}
	for _, name := range l.named {
		named[name] = true
	}
	for i := range f.peers {
		for _, name := range f.peers[i].ShortLived {
			named[name] = true
		}
	}
	changed = !maps.Equal(named, l.shortLived)
	l.shortLived = named
	return changed
}

// ShortLived returns the types that some node reports as short-lived. The caller must
// not modify it.
func (f *Fleet) ShortLived() map[string]bool { return f.lifetimes.shortLived }

// SurelyShortLived returns the types whose tasks are known here to be short-lived.
func (f *Fleet) SurelyShortLived() map[string]bool { return f.lifetimes.surely }

// EndsSoon reports whether a task that has been running for some time should not be
// moved for balance, because tasks of its type end within seconds and it is not much
// older than they become. settling is true if it would move because of an imbalance
// that a join or a leave has caused. Tasks that end at different times look the same,
// so a single one that has ended is then enough: the first ones to end say little about
// the rest.
func (f *Fleet) EndsSoon(taskType string, running time.Duration, settling bool) bool {
	t := f.lifetimes.byType[taskType]
	if t == nil || t.mean >= Settle {
		return false
	}
	return settling || t.ended >= endsSoonAfter && running < 4*t.mean
}

// ValidTypes returns the first of some types that another node reports, at most as many
// as a node may report. Invalid type names are left out.
func ValidTypes(named []string) (types []string) {
	for _, name := range named {
		if len(types) == ShortLivedMax {
			break
		}
		if name == "" || keys.CheckType(name) == nil { // tasks without a type have the empty one
			types = append(types, name)
		}
	}
	return types
}
