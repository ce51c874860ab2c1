package elections

import (
	"context"
	"errors"
	"time"

	"github.com/windlass-go/windlass/bench/internal/stats"
)

// The sides.
const (
	Windlass = iota
	Etcd
	sidesCount
)

// calm is how long nothing happens before a leader resigns: a watch that began less
// than 100 ms ago is one that etcd may deliver late, and which of them that meets is
// chance.
const calm = 110 * time.Millisecond

// HandOvers is what was measured of one side.
type HandOvers struct {
	// Times are those of all, in milliseconds.
	Times []float64
	// Requests and Watches are those of one hand-over, joining again included.
	Requests, Watches float64
}

// HandOver has leaders resign, as often on each side, in turns, and measures how long
// it takes until the next one's function runs. The result is by side. Nothing must
// have been elected on the etcd before. With only, the other sides are left out.
func HandOver(ctx context.Context, endpoints []string, candidates, times int, only ...int) (sides [sidesCount]HandOvers, err error) {
	if len(only) == 0 {
		only = []int{Windlass, Etcd}
	}
	asking, err := dial(endpoints)
	if err != nil {
		return sides, err
	}
	defer func() { err = errors.Join(err, asking.Close()) }()
	var contests [sidesCount]*contest
	begin := [sidesCount]func([]string, int) (*contest, error){Windlass: windlassContest, Etcd: etcdContest}
	for _, i := range only {
		if contests[i], err = begin[i](endpoints, candidates); err != nil {
			return sides, err
		}
		defer func() { err = errors.Join(err, contests[i].close()) }()
		if err := contests[i].settle(ctx, asking.Client); err != nil {
			return sides, err
		}
		if _, err := contests[i].next(ctx); err != nil {
			return sides, err
		}
	}
	for _, i := range only {
		c := contests[i]
		sides[i].Requests, sides[i].Watches = -float64(c.client.requests.Load()), -float64(c.client.watches.Load())
	}
	for round := range times {
		for _, turn := range stats.Turns(len(only), round) {
			i := only[turn]
			if err := pause(ctx, calm); err != nil {
				return sides, err
			}
			took, err := contests[i].handOver(ctx)
			if err == nil {
				err = contests[i].settle(ctx, asking.Client)
			}
			if err != nil {
				return sides, err
			}
			sides[i].Times = append(sides[i].Times, milliseconds(took))
		}
	}
	for _, i := range only {
		c := contests[i]
		sides[i].Requests = (sides[i].Requests + float64(c.client.requests.Load())) / float64(times)
		sides[i].Watches = (sides[i].Watches + float64(c.client.watches.Load())) / float64(times)
	}
	return sides, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
