package schedule

import (
	"fmt"
	"testing"
	"time"
)

// stream submits a number of tasks of each type, evenly over a time. It returns the
// share of refused claims, of all and of those in the second half.
func (l *loop) stream(tasks int, over time.Duration) (all, late float64) {
	l.t.Helper()
	begin := l.now
	claims, refused := 0, 0
	for i := range tasks {
		for l.now.Sub(begin) < over*time.Duration(i)/time.Duration(tasks) {
			l.step()
		}
		if i == tasks/2 {
			claims, refused = l.claims, l.refused
		}
		l.submit(fmt.Sprint("s", i), "short")
		l.submit(fmt.Sprint("l", i), "lasting")
	}
	l.finish(tasks)
	return float64(l.refused) / float64(l.claims), float64(l.refused-refused) / float64(l.claims-claims)
}

// The nodes learn which types are short-lived while tasks keep coming, and hear each
// other's reports late. Their disagreement must not last.
func TestBoard_M17_ALaggingFleetSoonAgreesOnShortLivedTypes(t *testing.T) {
	for _, c := range []struct {
		nodes, tasks int
		lag          time.Duration
		all, late    float64
	}{
		{3, 2400, 0, 0.01, 0},
		{3, 2400, 100 * time.Millisecond, 0.2, 0.15},
		{10, 1200, 0, 0.01, 0},
		{10, 1200, 100 * time.Millisecond, 0.05, 0},
		{60, 720, 100 * time.Millisecond, 0.05, 0},
	} {
		t.Run(fmt.Sprintf("%d nodes, %v late", c.nodes, c.lag), func(t *testing.T) {
			all, late := newLoop(t, c.nodes, c.lag).stream(c.tasks, 12*time.Second)
			if all > c.all || late > c.late {
				t.Errorf("refused were %.3f of the claims and %.3f of the later ones, want at most %.2f and %.2f", all, late, c.all, c.late)
			}
		})
	}
}
