package bench

import (
	"fmt"
	"testing"

	"github.com/windlass-go/windlass/bench/internal/elections"
	"github.com/windlass-go/windlass/bench/internal/stats"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// handOvers is how often BenchmarkHandOver changes the leader on each side, and
// takeOvers how many leaders BenchmarkTakeOver loses at once.
const (
	handOvers = 100
	takeOvers = 20
)

// sideNames are before the metrics of each side.
var sideNames = []string{elections.Windlass: "", elections.Etcd: "etcd-"}

// BenchmarkHandOver has the leader of an election resign, and measures how long it
// takes until the next one's function runs; beside the same with the etcd client's
// concurrency.Election, in turns, on one server that writes to disk.
func BenchmarkHandOver(b *testing.B) {
	for _, candidates := range []int{3, 100, 1000} {
		b.Run(fmt.Sprint(candidates), func(b *testing.B) {
			for range b.N {
				sides, err := elections.HandOver(b.Context(), socket(b), candidates, handOvers)
				if err != nil {
					b.Fatal(err)
				}
				for i, s := range sides {
					b.ReportMetric(stats.Median(s.Times), sideNames[i]+"ms")
					b.ReportMetric(stats.Percentile(s.Times, 99), sideNames[i]+"p99-ms")
					b.ReportMetric(s.Requests, sideNames[i]+"requests")
					b.ReportMetric(s.Watches, sideNames[i]+"watches")
				}
				b.ReportMetric(stats.Ratio(stats.Median(sides[elections.Windlass].Times), stats.Median(sides[elections.Etcd].Times)), "of-etcd")
			}
		})
	}
}

// BenchmarkTakeOver cuts leaders off from the store, and measures when the next one
// leads, after the expiry of the leader's session. Beside it the same with the etcd
// client's election.
func BenchmarkTakeOver(b *testing.B) {
	for range b.N {
		late, err := elections.TakeOver(b.Context(), socket(b), takeOvers)
		if err != nil {
			b.Fatal(err)
		}
		for i, times := range late {
			b.ReportMetric(stats.Median(times), sideNames[i]+"ms")
			b.ReportMetric(stats.Of(times).Most, sideNames[i]+"max-ms")
		}
	}
}

// socket is the address of a server that writes to disk.
func socket(b *testing.B) []string {
	b.Helper()
	return []string{"unix://" + startWith(b, embedded.Config{Socket: true}).Socket()}
}
