package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/loadgen"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/session"
)

// The hidden subcommands that bench starts this program with.
const (
	benchNodeUse   = "bench-node"
	benchBrokerUse = "bench-broker"
)

// benchConfig is what the flags of bench say.
type benchConfig struct {
	loadgen.Config
	sessionTTL time.Duration
	plot       string
}

func (a *app) benchCommand() *cobra.Command {
	var c benchConfig
	cmd := &cobra.Command{
		Use:   "bench [PHASE...]",
		Short: "Measure how fast a fleet places and moves tasks, beside the broker's raw limits",
		Long: `Start node processes on this machine whose tasks only wait, and measure how fast
tasks come to run, and run again when nodes die, drain and join. Each figure is
printed next to what the broker does at best: bare transactions of the same shape,
timed at the start of the same run.

The phases, all of them without an argument:
  submit    submit tasks to nodes that claim them meanwhile
  place     let tasks wait for another one, and delete that
  failover  kill a node, and measure from when its session has expired
  drain     drain a node, and stop it
  join      start another node
  idle      look at what running tasks cost

Without --broker it starts an etcd of its own that writes to a temporary folder.
With --broker it uses that one, in a namespace of its own beside --namespace, which
it deletes in the end.`,
		Example: `  windlass bench
  windlass bench place failover --tasks 50000 --plot bench.svg
  windlass bench --broker etcd://10.0.0.1:2379 -o json`,
		ValidArgs: loadgen.Phases,
		Args:      cobra.ArbitraryArgs, // checked with the flags
		RunE: func(cmd *cobra.Command, phases []string) error {
			if c.Phases = phases; len(phases) == 0 {
				c.Phases = loadgen.Phases
			}
			return a.bench(cmd.Context(), c)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&c.Tasks, "tasks", 10_000, "how many tasks, 1 to 1000000")
	flags.IntVar(&c.Nodes, "nodes", 3, "how many node processes at first, 1 to 64")
	flags.DurationVar(&c.sessionTTL, "session-ttl", session.TTLDefault, "session TTL of the nodes, 5s to 300s")
	flags.DurationVar(&c.IdleFor, "idle-for", 10*time.Second, "how long the idle phase looks, up to 1h")
	flags.DurationVar(&c.Timeout, "timeout", 5*time.Minute, "how long to wait for anything, up to 1h")
	flags.StringVar(&c.plot, "plot", "", "file for a plot of the running tasks over time (SVG)")
	_ = cmd.MarkFlagFilename("plot", "svg")
	return a.outputFlag(cmd)
}

func (a *app) bench(ctx context.Context, c benchConfig) (err error) {
	if err := errors.Join(a.checkOutput(), c.check()); err != nil {
		return err
	}
	plot, err := createPlot(c.plot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plot.Close()) }()
	nodes := a.broker // as the node processes get it
	if nodes.address == "" {
		starting, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("the broker did not start within %v", c.Timeout))
		defer cancel()
		if c.Server, err = loadgen.StartServer(starting, ownCommand(benchBrokerUse)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Server.Close()) }()
		nodes.address = c.Server.Dir
	}
	store, err := nodes.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c.Broker, c.Namespace = store, loadgen.Namespace(a.namespace)
	c.Node = func(name string) *exec.Cmd {
		args := append(nodes.args(), "--namespace="+c.Namespace, "--name="+name, "--session-ttl="+c.sessionTTL.String())
		return ownCommand(benchNodeUse, args...)
	}
	bar := a.newProgress("tasks running", c.Tasks)
	c.Progress, c.Running = func(text string) { a.say(bar, text) }, bar.set
	report, err := loadgen.Run(ctx, c.Config)
	bar.end()
	if len(report.Figures) > 0 { // what was measured before an error is worth showing
		err = errors.Join(err, a.print(report, func() table { return benchTable(report) }), loadgen.WriteSVG(plot, report.Curves))
	}
	return err
}

// check refuses what makes no sense, in terms of the flags.
func (c benchConfig) check() error {
	var input *loadgen.InputError
	switch err := c.Check(); {
	case errors.As(err, &input) && input.Field == "phase":
		return usagef("phase %s: %s", input.Value, input.Limit)
	case err != nil:
		return usagef("--%w", err)
	}
	if err := session.CheckTTL(c.sessionTTL); err != nil {
		return usagef("--session-ttl: %w", err)
	}
	return nil
}

// createPlot makes the file before anything is measured, so that a bad path is
// known at once.
func createPlot(path string) (io.WriteCloser, error) {
	if path == "" {
		return noPlot{io.Discard}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, usagef("--plot: %w", err)
	}
	return f, nil
}

// noPlot is where a plot goes that nobody asked for.
type noPlot struct{ io.Writer }

// Close implements io.Closer.
func (noPlot) Close() error { return nil }

func benchTable(r *loadgen.Report) table {
	t := table{heading: []string{"PHASE", "FIGURE", "VALUE", "RAW LIMIT", "RATIO"}}
	for _, f := range r.Figures {
		t.rows = append(t.rows, []string{f.Phase, f.Name, f.Text(), view.OrDash(f.RawText()), view.OrDash(f.RatioText())})
	}
	return t
}

// args are the flags that say the same to another process of this program.
func (b *brokerFlags) args() []string {
	var args []string
	for _, flag := range []struct{ name, value string }{
		{"broker", b.address}, {"broker-ca", b.ca}, {"broker-cert", b.cert}, {"broker-key", b.key},
		{"broker-user", b.user}, {"broker-password-file", b.passwordFile},
	} {
		args = append(args, "--"+flag.name+"="+flag.value) // an empty one too, for the environment may have another
	}
	return args
}

// ownCommand runs a subcommand of this very program.
func ownCommand(use string, args ...string) *exec.Cmd {
	path := "/proc/self/exe" // leads to this binary even after an upgrade has replaced the file
	if runtime.GOOS != "linux" {
		path, _ = os.Executable() // without a path, starting it fails and says so
	}
	return &exec.Cmd{Path: path, Args: append([]string{"windlass", use}, args...)}
}

// benchNodeCommand is one node of a bench.
func (a *app) benchNodeCommand() *cobra.Command {
	var name string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:    benchNodeUse,
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := keys.CheckNodeName(name); err != nil {
				return usagef("--name: %w", err)
			}
			outliveReaders()
			store, err := a.broker.open(cmd.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			return loadgen.RunNode(cmd.Context(), a.in, a.out, loadgen.NodeConfig{
				Broker: store, Namespace: a.namespace, Name: name, SessionTTL: ttl,
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the node")
	cmd.Flags().DurationVar(&ttl, "session-ttl", session.TTLDefault, "session TTL of the node")
	return cmd
}

// benchBrokerCommand is the broker of a bench that was not given one. It goes when
// its input ends, and its data with it. Unlike dev it announces itself to nobody.
func (a *app) benchBrokerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    benchBrokerUse,
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			dir, err := os.MkdirTemp("", "windlass-bench-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			outliveReaders()
			server, err := embedded.Start(cmd.Context(), embedded.Config{
				Dir: dir, Socket: true, QuotaBytes: embedded.QuotaBytesMax, Logger: a.logger(false), Fatal: brokerEnded,
			})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, server.Close()) }()
			loadgen.ServeBroker(a.in, a.out, server.Dir())
			return nil
		},
	}
}
