package balancer

import (
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
)

// Reporter reports how much of a resource is used. The node's single loop calls it,
// once a second at most, so it must not block; reading a file of /proc is fine.
type Reporter interface {
	// Used returns how much is used, by any process, of how much there is.
	Used() (used, total uint64, err error)
	// String returns the plural of the unit, as in "bytes".
	String() string
}

// Range of both limits of Resource, in percent.
const (
	LimitMin = 1
	LimitMax = 100
)

// Times and numbers of Resource.
const (
	// refusedAgain is the delay before a task that was refused because of a limit is
	// considered again.
	refusedAgain = 3 * time.Second
	// every is the interval of reviews when nothing changes.
	every = 10 * time.Second
	// releasePause is the shortest time between two releases above a limit: the memory
	// of a task is not free at once. It is below every so that a call which is early is
	// not in vain.
	releasePause = every / 2
	// yield is how long this node leaves what it released above a limit to others. They
	// wait for their turns, and then for patience.
	yield = 10 * time.Second
	// claimStep is how many tasks a node may claim between two readings even if it has
	// fewer, and release for balance in one call.
	claimStep = 8
)

// Resource claims nothing at or above a claim limit and releases tasks at or above a
// release limit. Below the claim limit, and to balance the nodes, another balancer
// decides. One Resource serves one node.
//
// At or above the release limit it releases one task per call: the youngest that has a
// handler, which loses the least work. It releases nothing
//
//   - while the task that it released before waits for a node, because then no node has
//     room and another release would only stop work,
//   - if it is the only task of the cluster,
//   - if no other node takes tasks.
//
// Unlike Metafora's, it refuses instead of sleeping, and releases the tasks that began
// last and not those that began first.
//
// Between the limits it takes nothing. So for balance it also releases only one task
// per call, and it stops if it had to take one back, until nodes come or go or a
// command asks for balancing.
//
// If the reporter fails, the last reading counts for ten seconds. After that the node
// keeps what it runs and claims nothing: it cannot know whether there is room, and
// others can.
type Resource struct {
	// Next decides below the claim limit, and balances. Nil means Fair.
	Next windlass.Balancer
	// Trouble, if set, is called with the first of consecutive errors of the reporter.
	// It is called in the node's loop and must not block.
	Trouble func(error)

	gauge gauge
	// Invariant: LimitMin <= claimLimit < releaseLimit <= LimitMax.
	claimLimit, releaseLimit int
	fair                     Fair

	// last is the last task released above the claim limit; its ID is empty once the
	// task came back.
	last release
	// uphill is true if a task released for balance between the limits had to be taken
	// back, so that releasing another is useless.
	uphill bool
	// moved has the tasks that were released above the release limit.
	moved moves
}

// release is a task that was given away above the claim limit.
type release struct {
	id string
	at time.Time
	// seen is when it was last seen unclaimed.
	seen time.Time
	// even is true if it was released for balance: taking it back does no harm.
	even bool
}

var _ windlass.Reviewer = (*Resource)(nil)

// NewResource returns a balancer that claims nothing while claimLimit percent of a
// resource or more are used, and releases tasks while releaseLimit percent or more are.
// Both limits are from LimitMin to LimitMax, and the claim limit must be below the
// release limit; the further apart they are, the fewer tasks move. NewResource calls
// the reporter once, and returns its error.
func NewResource(reporter Reporter, claimLimit, releaseLimit int) (*Resource, error) {
	if reporter == nil {
		return nil, &windlass.BadInputError{Field: "reporter", Limit: "must be set"}
	}
	bounds := fmt.Sprintf("must be from %d to %d", LimitMin, LimitMax)
	for _, l := range []struct {
		field string
		value int
	}{{"claim limit", claimLimit}, {"release limit", releaseLimit}} {
		if l.value < LimitMin || l.value > LimitMax {
			return nil, &windlass.BadInputError{Field: l.field, Value: fmt.Sprint(l.value), Limit: bounds}
		}
	}
	if claimLimit >= releaseLimit {
		return nil, &windlass.BadInputError{
			Field: "claim limit", Value: fmt.Sprint(claimLimit),
			Limit: fmt.Sprintf("must be below the release limit, which is %d", releaseLimit),
		}
	}
	if _, err := percentUsed(reporter); err != nil {
		return nil, err
	}
	return &Resource{gauge: gauge{reporter: reporter}, claimLimit: claimLimit, releaseLimit: releaseLimit}, nil
}

// ReviewEvery returns the interval of reviews when nothing changes.
func (r *Resource) ReviewEvery() time.Duration { return every }

func (r *Resource) next() windlass.Balancer {
	if r.Next != nil {
		return r.Next
	}
	return &r.fair
}

// CanClaim implements windlass.Balancer.
func (r *Resource) CanClaim(v *windlass.View, c windlass.Candidate) (bool, time.Time) {
	percent, known := r.gauge.read(v, r.Trouble)
	limit, mine := r.claimLimit, c.Task != nil && r.last.id != "" && c.Task.ID() == r.last.id
	if mine {
		r.last.seen = v.Now
		if r.last.even {
			limit = r.releaseLimit
		}
		if left := r.last.at.Add(yield).Sub(v.Now); left > 0 {
			return false, v.Now.Add(min(left, refusedAgain))
		}
	}
	if !known || percent >= limit {
		return false, v.Now.Add(refusedAgain)
	}
	if v.Self.Tasks >= r.gauge.tasks+room(r.gauge.tasks, percent, limit) {
		return false, r.gauge.tried.Add(readEvery)
	}
	ok, again := r.next().CanClaim(v, c)
	if ok && mine {
		r.uphill = r.uphill || r.last.even
		r.last.id = "" // its time still counts
	}
	return ok, again
}

// room returns how many tasks a node that has some may claim before the next reading:
// no more than it has, and no more than stay below the limit if each needs what those
// need on average. Their need is not known until they run, and a thousand claimed at
// once would exceed any limit before it showed.
func room(tasks, percent, limit int) int {
	n := max(claimStep, tasks)
	if tasks > 0 && percent > 0 {
		n = min(n, tasks*(limit-percent)/percent)
	}
	return max(n, 1)
}

// Balance implements windlass.Balancer.
func (r *Resource) Balance(v *windlass.View) []string {
	if v.Trigger == events.TriggerMembership || v.Trigger == events.TriggerCommand {
		r.uphill = false
		r.moved.forget()
		if fair, ok := r.next().(*Fair); ok {
			fair.moved.forget() // which may not be asked this time
		}
	}
	percent, known := r.gauge.read(v, r.Trouble)
	if !known {
		return nil
	}
	r.moved.observe(v.Now, percent >= r.releaseLimit)
	if percent < r.claimLimit {
		// In steps as well, because others claim in steps.
		return r.even(v, max(claimStep, v.Self.Tasks/10))
	}
	if !movable(v) || v.Now.Sub(r.last.at) < releasePause || r.waits(v.Now) {
		return nil
	}
	var ids []string
	full := percent >= r.releaseLimit
	switch {
	case full:
		// The move of one without a handler does not help.
		busy := slices.DeleteFunc(slices.Clone(v.Running), func(t windlass.RunningTask) bool { return t.Parked })
		ids = r.moved.youngest(busy, v.Now, 1)
	case !r.uphill:
		ids = r.even(v, 1)
	}
	if len(ids) > 0 {
		r.last = release{id: ids[0], at: v.Now, even: !full}
	}
	return ids
}

// waits reports whether the last released task was seen unclaimed since this node would
// last have been asked about it.
func (r *Resource) waits(now time.Time) bool {
	return r.last.id != "" && !r.last.seen.IsZero() && now.Sub(r.last.seen) < 2*refusedAgain
}

// movable reports whether another node takes tasks and there is more than one task, so
// that the only task of a cluster stays where it is.
func movable(v *windlass.View) bool {
	total, takers := v.Self.Tasks+v.Unowned, 0
	for _, n := range v.Nodes {
		total += n.Tasks
		if n.Eligible() {
			takers++
		}
	}
	return total > 1 && takers > 0
}

// even returns the tasks that Next releases for balance, at most limit.
func (r *Resource) even(v *windlass.View, limit int) []string {
	if fair, ok := r.next().(*Fair); ok {
		return fair.release(v, limit) // it remembers what it releases
	}
	ids := r.next().Balance(v)
	return ids[:min(limit, len(ids))]
}
