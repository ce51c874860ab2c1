package balancer

import (
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
)

// Reporter tells how much of a resource is used. The node's one loop calls it,
// once a second at most, so it must not block; reading a file of /proc is fine.
type Reporter interface {
	// Used is how much is used, by whomever, of how much there is.
	Used() (used, total uint64, err error)
	// String is the plural of the unit, as in "bytes".
	String() string
}

// Bounds of both limits of Resource, in percent.
const (
	LimitMin = 1
	LimitMax = 100
)

// Times and numbers of Resource.
const (
	// refusedAgain is when to look again at what was refused because of a limit.
	refusedAgain = 3 * time.Second
	// every is how often to be asked although nothing changed.
	every = 10 * time.Second
	// releasePause is the least time between two releases above a limit: what a
	// task used is not free at once. It is below every so that a call which is
	// early is not in vain.
	releasePause = every / 2
	// yield is how long this node leaves to others what it released above a
	// limit. They wait for their turns, and then for patience.
	yield = 10 * time.Second
	// claimStep is how many tasks a node may claim between two readings even if
	// it has fewer, and release for evenness in one call.
	claimStep = 8
)

// Resource claims nothing at or above a claim limit and gives tasks away at or
// above a release limit; below, and for what is even, it leaves the decision to
// another balancer. One Resource serves one node.
//
// At or above the release limit it releases one task per call, the youngest that
// has a handler: it loses the least work. It does not while what it released
// before waits for a taker, for then nobody has room, and more would only stop
// work; nor the only task of the cluster, nor when there is no node to take it.
// Unlike Metafora's, it refuses instead of sleeping, and gives back the tasks that
// began last and not those that began first.
//
// Between the limits it takes nothing, so it gives for evenness only one task
// per call as well, and stops if one had to be taken back, until nodes come or
// go or someone asks.
//
// While the reporter fails, the last reading counts for ten seconds. After that
// the node keeps what it runs and claims nothing: it cannot know whether there
// is room, and others can.
type Resource struct {
	// Next decides below the claim limit, and what is even. Nil means Fair.
	Next windlass.Balancer
	// Trouble, if set, is told the first of a row of errors of the reporter. It
	// is called in the node's loop and must not block.
	Trouble func(error)

	gauge gauge
	// Invariant: LimitMin <= claimLimit < releaseLimit <= LimitMax.
	claimLimit, releaseLimit int
	fair                     Fair

	// last is what was released last above the claim limit; it has no ID once
	// that came back.
	last release
	// uphill tells that a task released for evenness between the limits had to
	// be taken back, so that there is no use in another.
	uphill bool
	// moved are the tasks that were released above the release limit.
	moved moves
}

// release is a task that was given away above the claim limit.
type release struct {
	id string
	at time.Time
	// seen is when it was last seen unclaimed.
	seen time.Time
	// even tells that it was for evenness: having it back does no harm.
	even bool
}

var _ windlass.Reviewer = (*Resource)(nil)

// NewResource makes a balancer that claims nothing while claimLimit percent of a
// resource or more are used, and releases while releaseLimit percent or more
// are. Both are from LimitMin to LimitMax, the claim limit below the release
// limit; the further apart, the calmer. It asks the reporter once: one that does
// not work is an error now.
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

// ReviewEvery is how often Balance is to be called although nothing changed.
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

// room is how many tasks a node that has some may claim before the next reading:
// no more than it has, and no more than stay below the limit if each needs what
// those need on average. What they need is not known until they run, and a
// thousand claimed at once would exceed any limit before it showed.
func room(tasks, percent, limit int) int {
	n := max(claimStep, tasks)
	if tasks > 0 && percent > 0 {
		n = min(n, tasks*(limit-percent)/percent)
	}
	return max(n, 1)
}

// Balance implements windlass.Balancer.
func (r *Resource) Balance(v *windlass.View) []string {
	if v.Trigger == windlass.TriggerMembership || v.Trigger == windlass.TriggerCommand {
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

// waits tells whether what was released last was seen unclaimed since this node
// would last have been asked about it.
func (r *Resource) waits(now time.Time) bool {
	return r.last.id != "" && !r.last.seen.IsZero() && now.Sub(r.last.seen) < 2*refusedAgain
}

// movable tells whether there is someone to take a task and a task besides, so
// that the only one of a cluster stays where it is.
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

// even is what Next releases for evenness, limit tasks at most.
func (r *Resource) even(v *windlass.View, limit int) []string {
	if fair, ok := r.next().(*Fair); ok {
		return fair.release(v, limit) // it remembers what it releases
	}
	ids := r.next().Balance(v)
	return ids[:min(limit, len(ids))]
}
