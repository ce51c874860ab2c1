package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/cmd/windlass/internal/loadgen"
	"github.com/windlass-go/windlass/session"
)

func (a *app) benchCommand() *cobra.Command {
	var c loadgen.Config
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure tasks and jobs a second, beside the broker's raw rates",
		Long: `Measure how many jobs a second are completed that do nothing, how many tasks a second
come to run, and how soon tasks run again after a node has died. Each rate is printed
with its ratios to what the broker takes in the same run from one client: bare puts one
after the other, puts in bulk, and claims in bulk.

All nodes run in this process, each with its own connection. The result is thus limited
by the broker and by the load that one process on this machine can generate.

Without --broker it starts an etcd of its own in this process too, which writes to a
temporary folder. With --broker it uses that one, in a namespace of its own beside
--namespace, which it deletes in the end.`,
		Example: `  windlass bench
  windlass bench --tasks 50000 --nodes 10
  windlass bench --broker etcd://10.0.0.1:2379 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), c) },
	}
	flags := cmd.Flags()
	flags.IntVar(&c.Tasks, "tasks", 10_000, "how many tasks, and how many jobs, 1 to 1000000")
	flags.IntVar(&c.Nodes, "nodes", 3, "how many nodes, 1 to 64; a single one does not die")
	flags.DurationVar(&c.SessionTTL, "session-ttl", session.TTLDefault, "session TTL of the nodes, 5s to 300s")
	flags.DurationVar(&c.Timeout, "timeout", 5*time.Minute, "how long to wait for anything, up to 1h")
	return a.outputFlag(cmd)
}

func (a *app) bench(ctx context.Context, c loadgen.Config) (err error) {
	if err := c.Check(); err != nil {
		return usagef("--%w", err)
	}
	outliveReaders()
	store := a.broker
	if store.address == "" {
		var end func() error
		if store.address, end, err = a.startBenchBroker(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	c.Namespace = loadgen.Namespace(a.namespace)
	c.Connect = func(ctx context.Context) (broker.Broker, error) { return store.open(ctx) }
	bar := a.newProgress("starting", 0)
	c.Progress = func(text string, total int) {
		a.say(bar, text)
		bar.next(text, total)
	}
	c.Done = bar.set
	report, err := loadgen.Run(ctx, c)
	bar.end()
	if report.Raw != nil { // also after an error
		err = errors.Join(err, a.print(report, func() table { return benchTable(report) }))
	}
	return err
}

// startBenchBroker starts a broker and returns its folder, unannounced, unlike that of dev.
// end deletes its data.
func (a *app) startBenchBroker(ctx context.Context) (folder string, end func() error, err error) {
	dir, err := os.MkdirTemp("", "windlass-bench-")
	if err != nil {
		return "", nil, err
	}
	server, err := embedded.Start(ctx, embedded.Config{
		Dir: dir, Socket: true, QuotaBytes: embedded.QuotaBytesMax, Logger: a.logger(slog.LevelInfo, false), Fatal: brokerEnded,
	})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server.Dir(), func() error { return errors.Join(server.Close(), os.RemoveAll(dir)) }, nil
}

func benchTable(r *loadgen.Report) table {
	t := table{heading: []string{"FIGURE", "VALUE", "OF PUTS", "OF PUTS IN BULK", "OF CLAIMS IN BULK"}}
	bare := func(name, value string) { t.rows = append(t.rows, []string{name, value, "-", "-", "-"}) }
	rate := func(name string, r *loadgen.Rate) {
		if r != nil {
			t.rows = append(t.rows, []string{name, perSecond(r.PerSecond), ratio(r.OfPuts), ratio(r.OfBulkPuts), ratio(r.OfBulkClaims)})
		}
	}
	bare("raw: puts one after the other", perSecond(r.Raw.Puts))
	bare("raw: puts in bulk", perSecond(r.Raw.BulkPuts))
	bare("raw: claims in bulk", perSecond(r.Raw.BulkClaims))
	rate("jobs completed", r.Jobs)
	rate("tasks come to run", r.Started)
	if r.Lost != nil {
		bare("a node dies: until its session has expired", seconds(r.Lost.Expired))
		bare(fmt.Sprintf("from then until its %d tasks run again", r.Lost.Tasks), seconds(r.Lost.Running))
	}
	return t
}

func perSecond(rate float64) string { return fmt.Sprintf("%.0f/s", rate) }

// ratio has three significant digits.
func ratio(r float64) string { return strconv.FormatFloat(r, 'g', 3, 64) }

func seconds(s float64) string { return fmt.Sprintf("%.3f s", s) }
