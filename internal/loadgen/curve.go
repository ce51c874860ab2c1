package loadgen

import "time"

// Curve is how many tasks ran over time in one phase.
type Curve struct {
	Phase string
	// Total are the tasks that ran on all nodes, Nodes those of each.
	Total []Point
	Nodes [][]Point
	// Limit is how fast the broker could have gone: a straight line from the
	// first point to the last.
	Limit [2]Point
}

// Point is a number of tasks at a time, counted from the moment that the phase is
// measured from.
type Point struct {
	At    time.Duration
	Tasks int
}

// line is a number of tasks that changes at the broker's rate.
type line struct {
	from, to  int
	perSecond float64
}

func (l line) points() [2]Point {
	change := max(l.to-l.from, l.from-l.to)
	took := time.Duration(0)
	if l.perSecond > 0 {
		took = time.Duration(float64(change) / l.perSecond * float64(time.Second))
	}
	return [2]Point{{Tasks: l.from}, {At: took, Tasks: l.to}}
}

// curve adds what the log tells about a phase to the report. Only what happened
// from its moment on is drawn.
func (b *bench) curve(phase string, moment time.Time, limit line) {
	counts := b.ledger.beforeLog()
	c := Curve{Phase: phase, Limit: limit.points(), Nodes: make([][]Point, len(counts))}
	began := false
	begin := func() {
		began = true
		c.Total = []Point{{Tasks: sum(counts)}}
		for node, n := range counts {
			c.Nodes[node] = []Point{{Tasks: n}}
		}
	}
	for _, e := range b.ledger.log {
		at := time.Unix(0, e.at).Sub(moment)
		if at >= 0 && !began {
			begin()
		}
		if e.stop {
			counts[e.node]--
		} else {
			counts[e.node]++
		}
		if at >= 0 {
			c.Total = append(c.Total, Point{At: at, Tasks: sum(counts)})
			c.Nodes[e.node] = append(c.Nodes[e.node], Point{At: at, Tasks: counts[e.node]})
		}
	}
	if !began {
		begin()
	}
	b.report.Curves = append(b.report.Curves, c)
}
