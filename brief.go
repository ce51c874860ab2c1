package windlass

import "time"

const (
	// briefMax is how long the tasks of a type take, from the claim until the handler
	// returns, for them to be brief: others would hear of a change of the load after it is over.
	briefMax = 500 * time.Millisecond
	// briefAfter is how many of them must have ended for the next to be placed as such.
	// Nodes that know it at different times place differently, so it is soon.
	briefAfter = 4
	// surelyAfter is how many must have ended for those that run to be no load that could
	// be moved: others of the type may last.
	surelyAfter = 32
	// endsSoonAfter is how many must have ended for the others to be left in peace.
	endsSoonAfter = 8
	// briefTypesMax bounds the types that are watched for it.
	briefTypesMax = 1000
)

// lifetimes are how long the tasks of a type take, of late.
type lifetimes struct {
	byType map[string]*lifetime
	// brief are the types whose tasks seem to be, surely those whose tasks surely are.
	brief, surely map[string]bool
}

type lifetime struct {
	mean  time.Duration
	ended int
}

// endsSoon tells whether a task that has been running for some time had better not
// be moved for balance: those of its type end within seconds, and it is not much
// older than they become. What a join has left uneven is not told from what comes of
// some ending before others, so one that has ended is enough to leave its like alone
// then: those that ended first say little about how long the rest takes.
func (l *lifetimes) endsSoon(taskType string, running time.Duration, trigger Trigger) bool {
	t := l.byType[taskType]
	if t == nil || t.mean >= settle {
		return false
	}
	return trigger == TriggerSettling || t.ended >= endsSoonAfter && running < 4*t.mean
}

// add notes how long a task took that has ended. A single one that takes long
// counts: most that are like it may have just begun.
func (l *lifetimes) add(taskType string, took time.Duration) {
	t := l.byType[taskType]
	if t == nil {
		if l.byType == nil || len(l.byType) >= briefTypesMax {
			l.byType, l.brief, l.surely = map[string]*lifetime{}, map[string]bool{}, map[string]bool{}
		}
		t = &lifetime{mean: took}
		l.byType[taskType] = t
	}
	t.ended++
	t.mean += (min(took, 2*settle) - t.mean) / 16
	if t.mean >= briefMax {
		delete(l.brief, taskType)
		delete(l.surely, taskType)
		return
	}
	if t.ended >= briefAfter {
		l.brief[taskType] = true
	}
	if t.ended >= surelyAfter {
		l.surely[taskType] = true
	}
}
