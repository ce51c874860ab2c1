package balancer

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/windlass-go/windlass"
)

const (
	// readEvery is how long a reading counts.
	readEvery = time.Second
	// staleMax is how long the last reading counts while the reporter fails.
	staleMax = 10 * time.Second
)

// gauge reads a reporter at intervals and caches the result.
type gauge struct {
	reporter Reporter
	// percent was used at the time at, zero for never, when the node had tasks.
	percent, tasks int
	at             time.Time
	// tried is when it was last asked; failing is set if that failed.
	tried   time.Time
	failing bool
}

// read returns how many percent are used, if that is known.
func (g *gauge) read(v *windlass.View, trouble func(error)) (percent int, known bool) {
	if age := v.Now.Sub(g.tried); g.tried.IsZero() || age >= readEvery || age < 0 {
		g.tried = v.Now
		percent, err := percentUsed(g.reporter)
		if err == nil {
			g.percent, g.tasks, g.at = percent, v.Self.Tasks, v.Now
		} else if !g.failing && trouble != nil {
			trouble(err)
		}
		g.failing = err != nil
	}
	return g.percent, !g.failing || !g.at.IsZero() && v.Now.Sub(g.at) < staleMax
}

// percentUsed returns a reading in whole percent, rounded down: it is at or above a
// limit exactly if the unrounded one is.
func percentUsed(r Reporter) (int, error) {
	used, total, err := r.Used()
	if err != nil {
		return 0, fmt.Errorf("reading what is used: %w", err)
	}
	if total == 0 {
		return 0, fmt.Errorf("reading what is used: %d of 0 %s", used, r)
	}
	high, low := bits.Mul64(used, 100)
	if high >= total {
		return math.MaxInt32, nil // the quotient has more than 64 bits
	}
	percent, _ := bits.Div64(high, low, total)
	return int(min(percent, math.MaxInt32)), nil
}
