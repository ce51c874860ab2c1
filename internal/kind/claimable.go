package kind

import (
	"math/rand/v2"
	"slices"
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

// Waiting is what a task waits for.
type Waiting struct {
	// By lists the blockers that block. Count is how many tasks they are: all below a job
	// that still block are one each.
	By    []string
	Count int
	// Failed lists the tasks among them, and below them if all of these are needed, that
	// have failed or were killed; FailedCount is their number.
	Failed      []string
	FailedCount int
}

// Waits returns which of the blockers still block. Its lists have the first ones, at most a
// given number of them.
func Waits(blockers []string, tasks *mirror.Tasks, most int) (w Waiting) {
	trees := map[string]bool{}
	for _, b := range blockers {
		if job, all := depend.Tree(b); all {
			trees[job] = true
		}
	}
	for _, b := range blockers {
		marked, blocks := left(b, tasks)
		if !blocks {
			continue
		}
		if len(w.By) < most {
			w.By = append(w.By, b)
		}
		if within(b, trees) {
			continue
		}
		w.Count += count(b, tasks)
		for _, id := range marked {
			if tasks.Remains(id).HasKey {
				continue
			}
			if w.FailedCount++; len(w.Failed) < most {
				w.Failed = append(w.Failed, id)
			}
		}
	}
	return w
}

// within reports whether a blocker stands for nothing but what is below one of some jobs.
func within(blocker string, trees map[string]bool) bool {
	if len(trees) == 0 {
		return false
	}
	job, _ := depend.Tree(blocker)
	return slices.ContainsFunc(depend.Ancestors(job), func(above string) bool { return trees[above] })
}

// count returns how many tasks a blocker stands for.
func count(blocker string, tasks *mirror.Tasks) int {
	if job, all := depend.Tree(blocker); all {
		return tasks.Below(job)
	}
	return 1
}

// Blocks reports whether a blocker blocks those that wait for it.
func Blocks(blocker string, tasks *mirror.Tasks) bool {
	if job, all := depend.Tree(blocker); all {
		return tasks.Below(job) > 0
	}
	return tasks.Remains(blocker).Blocks()
}

// left returns the tasks of a blocker that have left a failure mark, and whether it
// blocks those that wait for it.
func left(blocker string, tasks *mirror.Tasks) (failed []string, blocks bool) {
	if job, all := depend.Tree(blocker); all {
		failed = tasks.FailedBelow(job)
	} else if t := tasks.Remains(blocker); t != nil && t.Failed != mirror.NotFailed {
		failed = []string{blocker}
	}
	return failed, Blocks(blocker, tasks)
}
