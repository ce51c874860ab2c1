package kind

import (
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// NeedsMax bounds the tasks that one waits for, its ancestors included: the claim has a
// condition for each, and one more for a task without a key of its own.
const NeedsMax = keys.JobDepthMax - 1

// Answer says whether a task could be claimed by some node, now.
type Answer struct {
	// Open tells that it could: to be run, or to be killed if Skipped is set.
	Open bool
	// Until is the time before which it cannot be claimed; zero if it waits for no time.
	Until time.Time
	// Waits tells that it waits for other tasks.
	Waits bool
	// Skipped is the task whose failure is why this one is to be killed, empty for none,
	// and SkippedAt the revision at which that was marked.
	Skipped   string
	SkippedAt broker.Revision
}

// Claimable says whether a task of a copy could be claimed, by what it waits for: the tasks
// that Blockers has named, and a time. What is to be killed because of a failure waits for
// neither.
func (f *Facts) Claimable(t *mirror.Task, blockers []string, tasks *mirror.Tasks, now time.Time) (a Answer) {
	if t.Owned() || f.Err != nil {
		return a
	}
	for _, b := range blockers {
		left := tasks.Remains(b)
		if left != nil && left.Failed == mirror.FailedSkips && !left.HasKey {
			return Answer{Open: true, Skipped: b, SkippedAt: tasks.FailedAt(b)}
		}
		a.Waits = a.Waits || blocks(left)
	}
	if f.NotBefore.After(now) {
		a.Until = f.NotBefore
	}
	a.Open = !a.Waits && a.Until.IsZero()
	return a
}

// Blockers are the tasks that a task waits for, be they there or not, its ancestors first.
// The error says that they are more than a claim can depend on, so that it is never open.
func (f *Facts) Blockers(t *mirror.Task) ([]string, error) {
	blockers := depend.Blockers(t.ID, f.Needs)
	most := NeedsMax
	if !t.HasKey {
		most--
	}
	if len(blockers) > most {
		return nil, fmt.Errorf("waits for %d tasks; the limit is %d", len(blockers), most)
	}
	return blockers, nil
}

// Waits are those of some tasks that others wait for, and Failed those of them that have
// failed or were killed.
func Waits(blockers []string, tasks *mirror.Tasks) (waits, failed []string) {
	for _, b := range blockers {
		left := tasks.Remains(b)
		if !blocks(left) {
			continue
		}
		waits = append(waits, b)
		if !left.HasKey {
			failed = append(failed, b)
		}
	}
	return waits, failed
}

// blocks tells whether those that wait for a task wait for what is left of it.
func blocks(left *mirror.Task) bool {
	return left != nil && (left.HasKey || left.Failed != mirror.NotFailed)
}
