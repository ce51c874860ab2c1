package deaths

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// BenchmarkJudge judges a death with as many suspects as a record lists, after an hour in which
// each of the nodes has died as often as is kept of one.
func BenchmarkJudge(b *testing.B) {
	for _, nodes := range []int{3, 60, 300} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			random := rand.New(rand.NewPCG(1, 2))
			tasks := max(nodes*100, lostMax)
			var recorded []Death
			for i := range nodes * CountMax {
				d := Death{Node: fmt.Sprint(i % nodes), Incarnation: fmt.Sprint(i), At: start.Add(time.Duration(i) * Window / 2 / time.Duration(nodes*CountMax)), Restarted: true}
				var lost []Lost
				for _, task := range random.Perm(tasks)[:lostMax] {
					lost = append(lost, Lost{Task: fmt.Sprint("t", task), Token: broker.Revision(i + 1)})
				}
				d.list(lost, func(Lost) bool { return true })
				recorded = append(recorded, d)
			}
			now := start.Add(Window / 2)
			none := func(string) broker.Revision { return 0 }
			fleet := Fleet{Tasks: tasks, Limits: func(string) (Limits, bool) { return Limits{Deaths: CountDefault}, true }}
			var book Book
			book.Set(recorded, true, none, now)
			d := recorded[len(recorded)-1]
			b.Run("judge", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					of := d
					of.Lost = slices.Clone(d.Lost)
					book.Judge(&of, fleet, now)
				}
			})
			b.Run("set", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					book.Set(recorded, false, none, now)
				}
			})
		})
	}
}
