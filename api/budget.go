package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"golang.org/x/sync/semaphore"
)

// budget bounds concurrent requests and the tasks that they have in memory, in all and for
// each caller.
type budget struct {
	limits Limits
	all    *semaphore.Weighted
	// small has the bytes of the small bodies that are being decoded, and large those of the large ones
	// that are worked on. A small one must not wait behind a large one that waits.
	small, large *semaphore.Weighted

	mu      sync.Mutex
	working int
	callers map[string]*usage
}

// usage is what one caller uses.
type usage struct {
	working int
	large   bool // a body
	tasks   *semaphore.Weighted
}

// newBudget allows twice the tasks of the longest list in all, and once for each caller, four of
// the longest bodies, and small ones of as many bytes as one of these.
func newBudget(l Limits) *budget {
	return &budget{
		limits: l, all: semaphore.NewWeighted(2 * int64(l.ListMax)), callers: map[string]*usage{},
		small: semaphore.NewWeighted(max(l.BodyBytesMax, smallBodyBytes)), large: semaphore.NewWeighted(4 * l.BodyBytesMax),
	}
}

// halfOf returns how much of its role's share one caller may use, so that it does not keep
// out all others of its role.
func halfOf(share int) int { return (share + 1) / 2 }

// enter lets a request in, unless there are too many.
func (b *budget) enter(c Caller) *Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.callers[c.Name]
	if u == nil {
		u = &usage{tasks: semaphore.NewWeighted(int64(b.limits.ListMax))}
	}
	most := shareOf(b.limits.RequestsMax, c.Role)
	var p *Problem
	switch {
	case b.working >= most:
		p = problem(http.StatusServiceUnavailable, "busy", "%d requests are under way already", b.working).
			about("requests", strconv.Itoa(b.working), fmt.Sprintf("must be at most %d at a time", most))
	case u.working >= halfOf(most):
		p = problem(http.StatusServiceUnavailable, "busy", "%d requests of %q are under way already", u.working, c.Name).
			about("requests", strconv.Itoa(u.working), fmt.Sprintf("must be at most %d at a time of one caller", halfOf(most)))
	default:
		b.working++
		u.working++
		b.callers[c.Name] = u
		return nil
	}
	p.retryAfter = 1
	return p
}

// leave ends a request that was let in.
func (b *budget) leave(c Caller) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.working--
	u := b.callers[c.Name]
	if u.working--; u.working == 0 {
		delete(b.callers, c.Name)
	}
}

// hold waits until a request that was let in may have so many tasks in memory, and returns
// a function that gives them back. It first waits for the caller's other requests, so that
// other callers wait for only one of them.
func (b *budget) hold(ctx context.Context, c Caller, tasks int) (release func(), p *Problem) {
	b.mu.Lock()
	own := b.callers[c.Name].tasks
	b.mu.Unlock()
	n := int64(min(tasks, b.limits.ListMax))
	for _, s := range []*semaphore.Weighted{own, b.all} {
		// A request whose time is over already is not refused for being in the way.
		if !s.TryAcquire(n) && s.Acquire(ctx, n) != nil {
			if s == b.all {
				own.Release(n)
			}
			p := problem(http.StatusServiceUnavailable, "busy", "other lists are under way")
			p.retryAfter = 1
			return nil, p
		}
	}
	return func() { b.all.Release(n); own.Release(n) }, nil
}

// hold waits until the request of ctx may have so many tasks in memory. They are given back
// once it is answered.
func (s *Server) hold(ctx context.Context, tasks int) error {
	t := stateOf(ctx)
	release, p := s.budget.hold(ctx, t.caller, tasks)
	if p != nil {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answered = append(t.answered, release)
	return nil
}
