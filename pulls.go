package windlass

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// pull is a call of Dequeue.
type pull struct {
	taskType string
	// until is when to give up; zero for never.
	until  time.Time
	result chan pulled
}

// pulled is what a call of Dequeue gets.
type pulled struct {
	task *Dequeued
	err  error
}

// pulls are the calls that wait, by type, the first one first.
type pulls struct {
	mu      sync.Mutex
	waiting map[string][]*pull
}

func (ps *pulls) add(p *pull) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.waiting[p.taskType] = append(ps.waiting[p.taskType], p)
}

// cancel takes a call back; false if it has, or is about to have, its result.
func (ps *pulls) cancel(p *pull) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	calls := ps.waiting[p.taskType]
	i := slices.Index(calls, p)
	if i < 0 {
		return false
	}
	ps.waiting[p.taskType] = slices.Delete(calls, i, i+1)
	return true
}

// take returns the call that is first, nil if there is none.
func (ps *pulls) take(taskType string) *pull {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	calls := ps.waiting[taskType]
	if len(calls) == 0 {
		return nil
	}
	ps.waiting[taskType] = calls[1:]
	return calls[0]
}

// count is how many calls wait.
func (ps *pulls) count(taskType string) int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.waiting[taskType])
}

// giveUp takes out the calls whose time is over, and tells when the next one's is.
func (ps *pulls) giveUp(taskType string, now time.Time) (next time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.waiting[taskType] = slices.DeleteFunc(ps.waiting[taskType], func(p *pull) bool {
		switch {
		case p.until.IsZero():
			return false
		case !p.until.After(now):
			p.result <- pulled{err: fmt.Errorf("type %q: %w", taskType, ErrEmpty)}
			return true
		}
		if next.IsZero() || p.until.Before(next) {
			next = p.until
		}
		return false
	})
	return next
}

// giveUpPulls answers the calls of TryDequeue that have waited long enough, and tells
// when to look again. Before the node knows the tasks, they wait.
func (in *incarnation) giveUpPulls(now time.Time) {
	in.pullAt = time.Time{}
	for _, taskType := range in.config.Pulls {
		if in.fleet.UnderWay(taskType) > 0 {
			continue
		}
		if at := in.node.pulls.giveUp(taskType, now); !at.IsZero() && (in.pullAt.IsZero() || at.Before(in.pullAt)) {
			in.pullAt = at
		}
	}
}
