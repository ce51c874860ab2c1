package elections

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/bench/internal/stats"
)

// Config says how much to measure. All fields but Sides must be set.
type Config struct {
	// Dir is an empty folder for the stores.
	Dir string
	// Candidates are the lengths of the lines, HandOvers how often the leader
	// resigns on each side in a repetition.
	Candidates []int
	HandOvers  int
	// TakeOvers is how many leaders each side loses at once; zero is none.
	TakeOvers   int
	Repetitions int
	// Sides are those to measure of hand-overs; none means all.
	Sides []int
	// Timeout bounds a repetition.
	Timeout time.Duration
	// Progress is told what is being done.
	Progress func(format string, args ...any)
}

// Workload is the name in the report.
const Workload = "elections"

// The names of the sides.
const (
	SideWindlass = "Windlass"
	SideEtcd     = "concurrency.Election"
)

var sideNames = [sidesCount]string{Windlass: SideWindlass, Etcd: SideEtcd}

// HandOverRow names the row of a length.
func HandOverRow(candidates int) string {
	return fmt.Sprintf("hand-over, %s candidates: median", report.Number(float64(candidates)))
}

// TakeOverRow is the row of take-overs.
const TakeOverRow = "take-over, after the session expired: median"

// Run measures.
func Run(ctx context.Context, c Config, r *report.Report) error {
	w := r.Begin(report.Workload{
		Name: Workload, Title: "Elections",
		About: "Windlass's elections beside the etcd client's own, on one etcd of one member with every write on disk, in turns. *Hand-over*: the leader resigns, and " +
			"stands again at the end; until the next one's function runs. *Take-over*: leaders are cut off from the store; from when their " +
			"session has expired, a TTL after its last renewal was sent, until the next one leads. etcd looks for expired leases every half second; those who stand with Windlass look for sessions that are not renewed ten times in a TTL.",
		Sides: []report.Side{
			{Name: SideWindlass, Settings: "sessions of 60 s (take-over: 5 s), all candidates on one connection"},
			{Name: SideEtcd, Settings: "the same"},
		},
	})
	for round := range c.Repetitions {
		for _, candidates := range c.Candidates {
			name := fmt.Sprintf("elections-%d-%d", candidates, round)
			if err := c.round(ctx, r, name, func(ctx context.Context, endpoints []string) error {
				return c.handOvers(ctx, w, endpoints, candidates)
			}); err != nil {
				return err
			}
		}
		if c.TakeOvers == 0 {
			continue
		}
		if err := c.round(ctx, r, fmt.Sprint("takeovers-", round), func(ctx context.Context, endpoints []string) error {
			return c.takeOvers(ctx, w, endpoints)
		}); err != nil {
			return err
		}
	}
	return nil
}

// round has something measured on an etcd of its own. It fails only when all is over.
func (c Config) round(ctx context.Context, r *report.Report, name string, measure func(context.Context, []string) error) error {
	bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	server, err := servers.StartEtcd(bounded, filepath.Join(c.Dir, name), 1)
	if err != nil {
		r.LeaveOut("elections, %s: %v", name, err)
		return context.Cause(ctx)
	}
	if err := measure(bounded, server.Endpoints); err != nil {
		r.LeaveOut("elections, %s: %v", name, err)
		c.Progress("elections: %s failed: %v", name, err)
	}
	if err := server.Close(); err != nil {
		r.LeaveOut("elections, %s: etcd: %v", name, err)
	}
	return context.Cause(ctx)
}

func (c Config) handOvers(ctx context.Context, w *report.Workload, endpoints []string, candidates int) error {
	sides, err := HandOver(ctx, endpoints, candidates, c.HandOvers, c.Sides...)
	if err != nil {
		return err
	}
	for i, s := range sides {
		if len(s.Times) == 0 {
			continue
		}
		w.Add(HandOverRow(candidates), sideNames[i], report.Milliseconds, stats.Median(s.Times))
		w.Add(fmt.Sprintf("hand-over, %s candidates: p95", report.Number(float64(candidates))), sideNames[i], report.Milliseconds, stats.Percentile(s.Times, 95))
		w.Add(fmt.Sprintf("hand-over, %s candidates: requests", report.Number(float64(candidates))), sideNames[i], "", s.Requests)
		w.Add(fmt.Sprintf("hand-over, %s candidates: watches begun", report.Number(float64(candidates))), sideNames[i], "", s.Watches).Detail = true
	}
	c.Progress("elections: hand-over, %d candidates: %.2f ms / %.2f ms", candidates, stats.Median(sides[Windlass].Times), stats.Median(sides[Etcd].Times))
	return nil
}

func (c Config) takeOvers(ctx context.Context, w *report.Workload, endpoints []string) error {
	late, err := TakeOver(ctx, endpoints, c.TakeOvers)
	if err != nil {
		return err
	}
	for i, times := range late {
		w.Add(TakeOverRow, sideNames[i], report.Milliseconds, stats.Median(times))
		w.Add("take-over, after the session expired: longest", sideNames[i], report.Milliseconds, stats.Of(times).Most)
	}
	c.Progress("elections: take-over: %.0f ms / %.0f ms", stats.Median(late[Windlass]), stats.Median(late[Etcd]))
	return nil
}
