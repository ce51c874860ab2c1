package schedule

import "time"

// Settle is how long an imbalance that no join or leave caused must last before tasks
// move for it, and how long a task must have been running to be moved then: finite
// tasks that come and go unevenly are best left alone.
const Settle = 10 * time.Second

const (
	// shortLivedMax is how long the tasks of a type take, from the claim until the
	// handler returns, for them to be short-lived: others would hear of a change of the
	// load after it is over.
	shortLivedMax = 500 * time.Millisecond
	// shortLivedAfter is how many of them must have ended for the next to be placed as
	// such. Nodes that know it at different times place differently, so it is soon.
	shortLivedAfter = 4
	// surelyAfter is how many must have ended for those that run to be no load that
	// could be moved: others of the type may last.
	surelyAfter = 32
	// endsSoonAfter is how many must have ended for the others to be left in peace.
	endsSoonAfter = 8
	// typesMax bounds the types that are watched for it.
	typesMax = 1000
)

// lifetimes are how long the tasks of a type take, of late.
type lifetimes struct {
	byType map[string]*lifetime
	// shortLived are the types whose tasks seem to be, surely those whose tasks surely
	// are.
	shortLived, surely map[string]bool
}

type lifetime struct {
	mean  time.Duration
	ended int
}

// Ended notes how long a task took that has ended on this node. A single one that
// takes long counts: most that are like it may have just begun.
func (f *Fleet) Ended(taskType string, took time.Duration) {
	l := &f.lifetimes
	t := l.byType[taskType]
	if t == nil {
		if l.byType == nil || len(l.byType) >= typesMax {
			*l = lifetimes{byType: map[string]*lifetime{}, shortLived: map[string]bool{}, surely: map[string]bool{}}
		}
		t = &lifetime{mean: took}
		l.byType[taskType] = t
	}
	t.ended++
	t.mean += (min(took, 2*Settle) - t.mean) / 16
	if t.mean >= shortLivedMax {
		delete(l.shortLived, taskType)
		delete(l.surely, taskType)
		return
	}
	if t.ended >= shortLivedAfter {
		l.shortLived[taskType] = true
	}
	if t.ended >= surelyAfter {
		l.surely[taskType] = true
	}
}

// ShortLived are the types whose tasks seem to end about as soon as they have begun.
func (f *Fleet) ShortLived() map[string]bool { return f.lifetimes.shortLived }

// SurelyShortLived are the types whose tasks are known to.
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
