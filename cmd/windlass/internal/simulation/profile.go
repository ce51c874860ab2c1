package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass"
)

// profile has the settings of one seed.
type profile struct {
	ttl time.Duration
	// nodes is how many are wanted, at most nodesMax.
	nodes int
	// pace is the mean time between two things that happen in a storm, storm how
	// long one lasts, and quiet how long nothing happens after it.
	pace, storm, quiet time.Duration
	// drift is how fast or slow a node's clock may be, as a fraction.
	drift float64
	// restarts and byHand allow restarts of the store and writes of operators, which
	// break the assumptions of S2.
	restarts, byHand bool
	// guarded is true if the store requires a password, leavesOut if watches leave out
	// values that were overwritten.
	guarded, leavesOut bool
	// pauses is true if types are paused and resumed.
	pauses bool
	// crowded is true if each task waits for so many others that a claim has conditions
	// for none of those that there are.
	crowded bool
	// grouped is true if the tasks that stay are in groups.
	grouped bool
	// returnWithin is that of the nodes.
	returnWithin time.Duration
	// retention is that of the nodes.
	retention windlass.Retention
}

// nodesMax limits the nodes of a cluster.
const nodesMax = 7

// pick draws one of some values.
func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// upTo draws a time below a limit.
func upTo(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}

// share is a value and its share in a hundred.
type share[T any] struct {
	value T
	share uint32
}

// choose returns the value for a number below a hundred.
func choose[T any](shares []share[T], n uint32) T {
	for _, s := range shares {
		if n < s.share {
			return s.value
		}
		n -= s.share
	}
	return shares[0].value
}

func newProfile(seed uint64, random *rand.Rand) profile {
	own := rand.New(rand.NewPCG(seed, 5)) // so that the other draws of a seed stay the same
	return profile{
		retention: pick(own, windlass.Retention{}, windlass.Retention{}, windlass.Retention{Age: 20 * time.Second}, windlass.Retention{Age: 2 * time.Minute},
			windlass.Retention{Count: 3}, windlass.Retention{Age: 5 * time.Minute, Count: 20}),
		leavesOut:    own.IntN(3) == 0,
		guarded:      own.IntN(4) == 0,
		pauses:       own.IntN(4) == 0,
		crowded:      own.IntN(3) == 0,
		grouped:      own.IntN(2) == 0,
		returnWithin: pick(own, 0, 0, 0, 3*time.Second, 20*time.Second),
		ttl:          pick(random, 5*time.Second, 10*time.Second, 15*time.Second, 15*time.Second, 30*time.Second),
		nodes:        2 + random.IntN(nodesMax-1),
		pace:         pick(random, 500*time.Millisecond, 2*time.Second, 2*time.Second, 5*time.Second),
		storm:        pick(random, time.Minute, 2*time.Minute, 4*time.Minute),
		quiet:        pick(random, 0, time.Minute, 5*time.Minute, 20*time.Minute),
		// The rates of two clocks are assumed to differ by less than a thousandth.
		drift:    pick(random, 0, 0.00049),
		restarts: random.IntN(3) == 0,
		byHand:   random.IntN(4) == 0,
	}
}

// String describes the profile.
func (p profile) String() string {
	return fmt.Sprintf("ttl=%v nodes=%d pace=%v storm=%v quiet=%v drift=%v restarts=%t byHand=%t age=%v count=%d leavesOut=%t guarded=%t pauses=%t crowded=%t grouped=%t returnWithin=%v",
		p.ttl, p.nodes, p.pace, p.storm, p.quiet, p.drift, p.restarts, p.byHand, p.retention.Age, p.retention.Count, p.leavesOut, p.guarded, p.pauses, p.crowded, p.grouped, p.returnWithin)
}
