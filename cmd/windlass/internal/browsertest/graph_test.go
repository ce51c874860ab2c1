//go:build e2e && linux

package browsertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
)

// allInSight is whether the whole graph is in its box.
const allInSight = `(() => {
	const box = document.querySelector(".graph svg").getBoundingClientRect();
	return [...document.querySelectorAll(".vertex rect")].map((e) => e.getBoundingClientRect()).every(
		(r) => r.left >= box.left && r.right <= box.right && r.top >= box.top && r.bottom <= box.bottom);
})()`

// Regression: the graph kept the scale that it had before it was unfolded, and most jobs were
// out of sight.
func TestDashboard_TheGraphFitsWhenItChangesUntilSomebodyMovesIt(t *testing.T) {
	const most = 40
	s := newStage(t, nil)
	s.handling("n1", "x", func(_ context.Context, claim *windlass.Claim) error {
		if strings.Contains(claim.ID(), "bad") {
			return windlass.Permanent(errors.New("no such host"))
		}
		return nil
	})
	ids := []string{"all_x", "all_x|bad_x"}
	for i := range most {
		ids = append(ids, fmt.Sprintf("all_x|part%d_x", i))
	}
	s.submit("x", ids...)
	b := open(t, s.address)
	b.visit("#/trees", "Trees")
	b.sees(`document.querySelectorAll(".vertex").length === 3`, "the job above, those that are completed, and the one that failed")
	b.sees(`document.querySelector('.vertex[data-id="all_x|bad_x"]').matches(".s-failed")`, "the failed one by itself")
	b.says(".vertex.folded", fmt.Sprintf("%d completed", most))
	b.sees(allInSight, "all of it")
	b.runs(`document.querySelector(".vertex.folded").dispatchEvent(new MouseEvent("click", { bubbles: true }))`)
	b.sees(fmt.Sprintf(`document.querySelectorAll(".vertex").length === %d`, most+2), "each job")
	b.sees(allInSight, "all of it, unfolded")
	b.picture("graph-unfolded")
	s.submit("nobody", "below_nobody")
	b.sees(fmt.Sprintf(`document.querySelectorAll(".vertex").length === %d`, most+3), "another job")
	b.sees(allInSight, "all of it, with another job")

	b.push(".zoom", "+")
	const where = `document.querySelector(".graph svg > g").getAttribute("transform")`
	mine := value[string](b, where)
	s.submit("nobody", "second_nobody")
	b.sees(fmt.Sprintf(`document.querySelectorAll(".vertex").length === %d`, most+4), "one more")
	s.submit("nobody", "third_nobody") // once it is drawn, a fit after the one before would have been seen
	b.sees(fmt.Sprintf(`document.querySelectorAll(".vertex").length === %d`, most+5), "and another")
	b.sees(where+" === "+quoted(mine), "what was chosen")
	b.push(".zoom", "Fit")
	b.sees(allInSight, "all of it, when asked")
}
