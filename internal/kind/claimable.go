package kind

import (
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
)

// NeedsMax limits the tasks that one task waits for, its ancestors included. The claim
// has a condition for each, and one more for a task without a key of its own.
const NeedsMax = keys.JobDepthMax - 1

// Answer says whether some node could claim a task now.
type Answer struct {
	// Open is true if the task could be claimed: to run it, or to kill it if Skipped is
	// set.
	Open bool
	// Until is the time before which it cannot be claimed; zero if it waits for no
	// time.
	Until time.Time
	// Waits is true if it waits for other tasks.
	Waits bool
	// Skipped is the task whose failure causes this one to be killed, empty for none.
	// SkippedAt is the revision at which that failure was marked.
	Skipped   string
	SkippedAt broker.Revision
}

// Claimable returns whether a task of a copy could be claimed, given what it waits for:
// the tasks that Blockers returned, and a time. A task that is to be killed because of
// a failure waits for neither.
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

// Blockers returns the tasks that a task waits for, whether they exist or not, its
// ancestors first. It returns an error if they are more than a claim can depend on, so
// that the task is never open.
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

// Waits returns the blockers that still block, and in failed those of them that have
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

// blocks reports whether what is left of a task blocks the tasks that wait for it.
func blocks(left *mirror.Task) bool {
	return left != nil && (left.HasKey || left.Failed != mirror.NotFailed)
}
