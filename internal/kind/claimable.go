package kind

import (
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Answer says whether some node could claim a task now.
type Answer struct {
	// Open is true if the task could be claimed: to run it, or to kill it if Skipped is
	// set.
	Open bool
	// Until is the time before which it cannot be claimed; zero if it waits for no
	// time.
	Until time.Time
	// WaitsFor is one of the tasks that it waits for, empty if it waits for none. It is
	// drawn at random: whoever asks again only once that one has ended asks about ln(n)
	// times until n tasks have, in whichever order they do.
	WaitsFor string
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
	blocking := 0
	for _, b := range blockers {
		failed, blocks := left(b, tasks)
		for _, id := range failed {
			if tasks.Remains(id).Skips() {
				return Answer{Open: true, Skipped: id, SkippedAt: tasks.FailedAt(id)}
			}
		}
		if !blocks {
			continue
		}
		if blocking++; rand.IntN(blocking) == 0 {
			a.WaitsFor = b
		}
	}
	if f.NotBefore.After(now) {
		a.Until = f.NotBefore
	}
	a.Open = blocking == 0 && a.Until.IsZero()
	return a
}

// Blockers returns the tasks that a task waits for, whether they exist or not, its
// ancestors first.
func (f *Facts) Blockers(id string) []string { return depend.Blockers(id, f.Needs) }

// Waits returns the blockers that still block, and in failed the tasks among them, and
// below them if all of these are needed, that have failed or were killed.
func Waits(blockers []string, tasks *mirror.Tasks) (waits, failed []string) {
	for _, b := range blockers {
		marked, blocks := left(b, tasks)
		if !blocks {
			continue
		}
		waits = append(waits, b)
		for _, id := range marked {
			if !tasks.Remains(id).HasKey {
				failed = append(failed, id)
			}
		}
	}
	return waits, failed
}

// left returns the tasks of a blocker that have left a failure mark, and whether it
// blocks those that wait for it.
func left(blocker string, tasks *mirror.Tasks) (failed []string, blocks bool) {
	if job, all := depend.Tree(blocker); all {
		return tasks.FailedBelow(job), tasks.Below(job) > 0
	}
	t := tasks.Remains(blocker)
	if t != nil && t.Failed != mirror.NotFailed {
		failed = []string{blocker}
	}
	return failed, t.Blocks()
}
