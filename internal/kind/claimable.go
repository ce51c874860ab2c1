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
		left := tasks.Remains(b)
		if left.Skips() {
			return Answer{Open: true, Skipped: b, SkippedAt: tasks.FailedAt(b)}
		}
		if !blocks(left) {
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
