package schedule

import (
	"maps"
	"slices"
	"time"
)

// Settle is how long an imbalance that no join or leave caused must last before tasks
// move for it, and how long a task must have been running to be moved then: finite
// tasks that come and go unevenly are best left alone.
const Settle = 10 * time.Second

// ShortLivedMax bounds the types that a node names as short-lived.
const ShortLivedMax = 100

const (
	// shortLivedMax is how long the tasks of a type take, from the claim until the
	// handler returns, for them to be short-lived: others would hear of a change of the
	// load after it is over.
	shortLivedMax = 500 * time.Millisecond
	// shortLivedAfter is how many of them must have ended for the type to be named: it is
	// soon, because their comings and goings are seen at different times.
	shortLivedAfter = 4
	// surelyAfter is how many must have ended for those that run to be no load that
	// could be moved: others of the type may last.
	surelyAfter = 32
	// endsSoonAfter is how many must have ended for the others to be left in peace.
	endsSoonAfter = 8
	// typesMax bounds the types that are watched for it.
	typesMax = 1000

	// nameEvery bounds how often a node decides which types it names: all that it watches are
	// looked at, and a change costs every node a message.
	nameEvery = time.Second
	// namedAgainAfter is how long the tasks of a type must not have taken long for it to be
	// named again, so that one with tasks of both sorts is not named and dropped by turns.
	namedAgainAfter = time.Minute
	// namedFor is how long a type is named after a task of it has ended here. Tasks that
	// never end must not be taken for short-lived for ever because of some that did.
	namedFor = 10 * time.Minute
)

// lifetimes are how long the tasks of a type have taken recently on this node, and the
// types that the nodes name as short-lived.
//
// Where a task goes depends on whether its type is short-lived, so nodes must agree about
// it. A type is short-lived for a node if the node itself or a registered peer names it.
// What a node has seen decides only what it names: if it could overrule what others name,
// it would place tasks differently from them for as long as both names and evidence last.
type lifetimes struct {
	byType map[string]*lifetime
	// surely are the types whose tasks surely are short-lived.
	surely map[string]bool

	// named are those that this node names, sorted.
	named []string
	// changed is set when something speaks for naming others. namedAt is when that was
	// decided last, lapseAt when one of them may have to be dropped.
	changed          bool
	namedAt, lapseAt time.Time
	// shortLived are the types that any node names.
	shortLived map[string]bool
}

type lifetime struct {
	mean  time.Duration
	ended int
	// endedAt is when a task ended last, lastedAt when the mean was last too long.
	endedAt, lastedAt time.Time
}

// Ended notes how long a task took that has ended on this node. A single one that
// takes long counts: most that are like it may have just begun.
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

// forget forgets all types but those that are named.
func (l *lifetimes) forget() {
	byType := map[string]*lifetime{}
	l.surely = map[string]bool{}
	for _, name := range l.named {
		byType[name] = l.byType[name]
	}
	l.byType = byType
}

// isToBeNamed reports whether a type is short-lived by what this node has seen.
func (t *lifetime) isToBeNamed(now time.Time) bool {
	return t.ended >= shortLivedAfter && t.mean < shortLivedMax && now.Sub(t.endedAt) < namedFor &&
		(t.lastedAt.IsZero() || now.Sub(t.lastedAt) >= namedAgainAfter)
}

// Named are the types that this node is to name as short-lived, sorted. changed reports that
// it has named others until now. They count here from now on, and
// elsewhere once they are published.
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
		if at := l.byType[name].endedAt.Add(namedFor); l.lapseAt.IsZero() || at.Before(l.lapseAt) {
			l.lapseAt = at
		}
	}
	if slices.Equal(types, l.named) {
		return types, false
	}
	l.named = types
	f.unite()
	return types, true
}

// NextNamed is when Named may become something else, zero for not by itself.
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

// unite finds the types that any node names, and reports whether they are others.
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

// ShortLived are the types that some node names as short-lived. It must not be changed.
func (f *Fleet) ShortLived() map[string]bool { return f.lifetimes.shortLived }

// SurelyShortLived are the types whose tasks are known here to be.
func (f *Fleet) SurelyShortLived() map[string]bool { return f.lifetimes.surely }

// EndsSoon reports whether a task that has been running for some time had better not be
// moved for balance: those of its type end within seconds, and it is not much older than
// they become. settling is whether it would move for what a join or a leave has left
// uneven. Tasks that end at different times look the same, so a single one that has ended
// is enough then: those that end first say little about how long the rest takes.
func (f *Fleet) EndsSoon(taskType string, running time.Duration, settling bool) bool {
	t := f.lifetimes.byType[taskType]
	if t == nil || t.mean >= Settle {
		return false
	}
	return settling || t.ended >= endsSoonAfter && running < 4*t.mean
}
