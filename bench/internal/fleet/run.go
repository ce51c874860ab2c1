package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/bench/internal/stats"
	"github.com/windlass-go/windlass/internal/loadgen"
)

// Config says how much to measure. All fields must be set.
type Config struct {
	// Dir is an empty folder for the stores.
	Dir string
	// Members are the sizes of the clusters.
	Members     []int
	Tasks       int
	IdleFor     time.Duration
	Repetitions int
	// Timeout bounds each wait of "windlass bench".
	Timeout time.Duration
	// Progress is told what is being done.
	Progress func(format string, args ...any)
}

// Workload is the name in the report.
const Workload = "fleet"

// sessionTTL is that of the nodes: the least, for a killed one is waited for.
const sessionTTL = 5 * time.Second

// phases are those that are run.
var phases = []string{loadgen.PhaseSubmit, loadgen.PhasePlace, loadgen.PhaseFailover, loadgen.PhaseJoin, loadgen.PhaseIdle}

// shown are the figures of the table, each with the name of its row and what its
// ratio is to; the others are details.
var shown = []struct{ phase, figure, row string }{
	{"raw", "one put, median", "bare: one put, median"},
	{"raw", "puts one after the other", "bare: puts one after the other"},
	{"raw", "puts in bulk", "bare: puts in bulk"},
	{"raw", "claims in bulk", "bare: claims in bulk"},
	{"submit", "submitted", "tasks submitted"},
	{"place", "placed", "tasks placed"},
	{"place", "claims lost to a race", "… claims lost to a race"},
	{"place", "until all is written down", "… until all is written down, too"},
	{"failover", "restarted", "tasks of a killed node restarted, from the expiry of its session"},
	{"failover", "from expiry to start, max", "… until the last one"},
	{"join", "from joined to even", "a node joins: until even to the task"},
	{"join", "tasks moved", "… moves"},
	{"idle", "CPU of a node, of one core", "idle: processor time of a node"},
	{"idle", "other requests", "idle: requests beside renewals"},
	{"idle", "heap and stacks for a task", "memory for a running task, heap and stacks"},
}

// PlacedRow is the row with the rate of placing beside the broker's limit.
const PlacedRow = "… tasks placed, of claims in bulk"

// side names a cluster.
func side(members int) string {
	if members == 1 {
		return "etcd of one member"
	}
	return fmt.Sprintf("etcd of %d members", members)
}

// Run measures.
func Run(ctx context.Context, c Config, r *report.Report) error {
	w := r.Begin(report.Workload{
		Name: Workload, Title: "Long-lived tasks, beside the broker's limits",
		About: fmt.Sprintf("`windlass bench` with %s tasks that only wait on three node processes. *Bare* is what the broker does at best for one client, measured in "+
			"the same minute; what is behind \"of\" is the ratio to that. Bare claims put a key on a lease if it is not there; in bulk, hundreds of "+
			"them are in one request, as Windlass sends them.", report.Number(float64(c.Tasks))),
	})
	for _, members := range c.Members {
		w.Sides = append(w.Sides, report.Side{
			Name: side(members), Settings: fmt.Sprintf("%d member process(es) on this machine, every write on disk; sessions of %v", members, sessionTTL),
		})
	}
	for round := range c.Repetitions {
		for _, i := range stats.Turns(len(c.Members), round) {
			if err := c.trial(ctx, w, c.Members[i], fmt.Sprintf("fleet-%d-%d", c.Members[i], round)); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.LeaveOut("long-lived tasks, %s, round %d: %v", side(c.Members[i]), round+1, err)
				c.Progress("fleet: %s failed: %v", side(c.Members[i]), err)
			}
		}
	}
	return nil
}

// trial measures one cluster once.
func (c Config) trial(ctx context.Context, w *report.Workload, members int, name string) (err error) {
	server, err := servers.StartEtcd(ctx, filepath.Join(c.Dir, name), members)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	l, err := measureLimits(bounded, server.Endpoints, c.Tasks)
	if err != nil {
		return fmt.Errorf("the broker's limits: %w", err)
	}
	to := side(members)
	w.Add("bare: claims one after the other", to, report.PerSecond, l.single)
	w.Add(fmt.Sprintf("bare: claims, %d at once", claimsAtOnce), to, report.PerSecond, l.atOnce)
	w.Add(fmt.Sprintf("bare: events told to %d watchers", watchers), to, report.PerSecond, l.events)
	w.Add("… after the put was sent: median", to, report.Milliseconds, l.delay(50))
	w.Add("… after the put was sent: p99", to, report.Milliseconds, l.delay(99))
	measured, err := Bench{
		Endpoints: server.Endpoints, Phases: phases, Tasks: c.Tasks, IdleFor: c.IdleFor, SessionTTL: sessionTTL, Timeout: c.Timeout,
	}.Run(ctx)
	if err != nil {
		return err
	}
	if err := add(w, to, measured); err != nil {
		return err
	}
	c.Progress("fleet: %s, %d tasks: measured", to, c.Tasks)
	return nil
}

// add adds the figures of "windlass bench".
func add(w *report.Workload, to string, measured *loadgen.Report) error {
	for _, s := range shown {
		f, err := Find(measured, s.phase, s.figure)
		if err != nil {
			return err
		}
		w.Add(s.row, to, f.Unit, f.Value)
		if f.Ratio != nil && !strings.HasPrefix(s.row, "…") {
			w.Add(fmt.Sprintf("… %s, of %s", s.row, f.RawLimit), to, report.Times, *f.Ratio)
		}
	}
	for _, f := range measured.Figures {
		w.Add(f.Phase+": "+f.Name, to, f.Unit, f.Value).Detail = true
	}
	return nil
}
