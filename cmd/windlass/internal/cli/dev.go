package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/session"
)

type devConfig struct {
	nodes int
	data  string
	// temporary data is deleted in the end.
	temporary bool
	allow     allowFlags
	verbose   bool
	// node is what all nodes share.
	node workerConfig
	// listen is the address of the HTTP API, chosen reports whether the user gave it.
	listen string
	chosen bool
	noHTTP bool
	// noDashboard leaves the pages out.
	noDashboard bool
}

// devNodesMax bounds the nodes of one dev; each has a process of its own beside.
const devNodesMax = 64

func (a *app) devCommand() *cobra.Command {
	var c devConfig
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a broker and nodes on this machine, for this user",
		Long: `Run an embedded etcd and nodes that run OS commands, in one process. The etcd listens
on no network port: other processes of the same user reach it through a socket in a
private folder, and find it by themselves.

The HTTP API is on a port of this machine, and asks for a token that only this user
can read; --no-http turns it off. The dashboard is there as well: open the address that
is printed, which has the token in it; --no-dashboard leaves it out.

With --data it keeps its data in a folder and can be stopped and started again;
without it, the data is deleted when it ends. With --nodes 0 it is the broker alone, for
"windlass node" to join.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.chosen = cmd.Flags().Changed("listen"); c.chosen && c.noHTTP {
				return usagef("--listen and --no-http exclude each other")
			}
			return a.dev(cmd.Context(), c)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&c.nodes, "nodes", 3, "how many nodes to run, 0 to 64")
	flags.StringVar(&c.data, "data", "", "folder for the data; default: a temporary one")
	c.allow.register(flags, []string{"*"})
	flags.DurationVar(&c.node.SessionTTL, "session-ttl", session.TTLDefault, "how long a node may be out of touch before others take over, 5s to 300s")
	flags.StringVar(&c.listen, "listen", listenDefault, "address of this machine for the HTTP API; if it is not given and in use, another port")
	flags.BoolVar(&c.noHTTP, "no-http", false, "do not serve the HTTP API")
	flags.BoolVar(&c.noDashboard, "no-dashboard", false, "serve the HTTP API without its web pages")
	registerConcurrency(flags, &c.node.Concurrency)
	registerRetention(flags, &c.node.Retention)
	flags.BoolVarP(&c.verbose, "verbose", "v", false, "log what happens to each task")
	return cmd
}

func (a *app) dev(ctx context.Context, c devConfig) (err error) {
	if c.nodes < 0 || c.nodes > devNodesMax {
		return usagef("--nodes %d: must be from 0 to %d", c.nodes, devNodesMax)
	}
	if err := cmp.Or(checkSessionTTL(c.node.SessionTTL), checkRetention(c.node.Retention)); err != nil {
		return err
	}
	if c.node.allow, err = c.allow.allow(); err != nil {
		return err
	}
	var listener net.Listener
	if !c.noHTTP {
		if listener, err = listenDev(c.listen, c.chosen); err != nil {
			return err
		}
		defer listener.Close() // the API closes it as well
	}
	if c.temporary = c.data == ""; c.temporary {
		if c.data, err = os.MkdirTemp("", "windlass-dev-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.data)) }()
	}
	outliveReaders()
	c.node.log = a.logger(slog.LevelInfo, c.verbose)
	server, err := embedded.Start(ctx, embedded.Config{Dir: c.data, Socket: true, Logger: c.node.log, Fatal: brokerEnded})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	withdraw, err := announceDev(server.Dir())
	if err != nil {
		return err
	}
	defer withdraw()
	return a.runDev(ctx, server, c, listener)
}

// runDev runs the nodes and the API on a broker.
func (a *app) runDev(ctx context.Context, server *embedded.Server, c devConfig, listener net.Listener) error {
	config := c.node
	config.Namespace, config.LogDir = a.namespace, filepath.Join(server.Dir(), "logs")
	stopTracing, err := a.startTracing(ctx, config.log, &config.Tracer)
	if err != nil {
		return err
	}
	defer stopTracing()
	var http *devAPI
	var crew crew
	if listener != nil {
		if config.metrics, err = devMetrics(server, a.namespace); err != nil {
			return err
		}
		if http, err = a.openDevAPI(server, listener, config, !c.noDashboard, crew.sessions); err != nil {
			return err
		}
	}
	workers, err := startWorkers(ctx, server, c.nodes, config)
	if err != nil {
		if http != nil {
			err = errors.Join(err, http.store.Close())
		}
		return err
	}
	crew.nodes.Store(&workers)
	a.greet(server, c.temporary, workers, config.allow, http)
	return runWorkers(ctx, server, workers, http)
}

// crew are the nodes of a dev, none until they were started.
type crew struct{ nodes atomic.Pointer[[]*worker] }

// sessions returns how long the nodes could go on without the broker now.
func (c *crew) sessions() (all []api.Session) {
	nodes := c.nodes.Load()
	if nodes == nil {
		return nil
	}
	for _, w := range *nodes {
		all = append(all, api.Session{
			Node: w.node.Name(), MarginSeconds: max(0, w.node.Stats().Margin).Seconds(), FullSeconds: w.timing.Stop.Seconds(),
		})
	}
	return all
}

// startWorkers makes the nodes, each with its own connection.
func startWorkers(ctx context.Context, server *embedded.Server, n int, c workerConfig) ([]*worker, error) {
	logs, log := c.LogDir, c.log
	var workers []*worker
	for i := range n {
		c.Name = fmt.Sprintf("dev-%d", i+1)
		c.LogDir, c.log = filepath.Join(logs, c.Name), log.With("node", c.Name)
		w, err := newWorker(ctx, server.Broker(), c)
		if err != nil {
			for _, started := range workers {
				err = errors.Join(err, started.supervisor.Close())
			}
			return nil, err
		}
		workers = append(workers, w)
	}
	return workers, nil
}

// runWorkers runs the nodes and the API until ctx is done, one of them fails, or the
// broker stops by itself.
func runWorkers(ctx context.Context, server *embedded.Server, workers []*worker, http *devAPI) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runs := []func(context.Context) error{http.run}
	for _, w := range workers {
		runs = append(runs, w.run)
	}
	var running sync.WaitGroup
	errs := make([]error, len(runs))
	for i, run := range runs {
		running.Go(func() {
			if errs[i] = run(ctx); errs[i] != nil {
				cancel(errs[i])
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-server.Done():
		cancel(server.Err())
	}
	running.Wait()
	return errors.Join(append(errs, server.Err())...)
}

func (a *app) greet(server *embedded.Server, temporary bool, workers []*worker, allow exectask.Allow, http *devAPI) {
	kept := ""
	if temporary {
		kept = " (deleted when this ends; --data FOLDER keeps it)"
	}
	fmt.Fprintf(a.err, `
Windlass is running: an embedded etcd with %d node(s), for this user alone.
  data    %s%s
  broker  %s
`, len(workers), server.Dir(), kept, server.Socket())
	if found, err := findDev(); err == nil && found != server.Dir() {
		fmt.Fprintf(a.err, "  another \"windlass dev\" runs, with its data in %s:\n  commands find that one; name this one with --broker %s\n", found, server.Dir())
	}
	if len(workers) > 0 {
		fmt.Fprintf(a.err, "  runs    %s\n", allow)
	}
	if http != nil {
		fmt.Fprintf(a.err, "  http    %s, with the header in %s\n", http.url, http.header)
		switch {
		case http.page == "":
		case isTerminal(a.err):
			fmt.Fprintf(a.err, "  open    %s\n", http.page)
		default: // others may be able to read a file or a log
			fmt.Fprintf(a.err, "  open    the address in %s\n", http.pageFile)
		}
	}
	fmt.Fprint(a.err, `
In another terminal:
  windlass task submit hello -- echo "hello from windlass"
  windlass task get hello
  windlass node list
`)
	if http != nil {
		fmt.Fprintf(a.err, "  curl -H @%s %s/v1/tasks\n", http.header, http.url)
	}
	if len(workers) == 0 {
		fmt.Fprintf(a.err, "  windlass node --broker %s --name n1 --exec-allow '*'\n", server.Dir())
	}
	fmt.Fprintln(a.err, "\n(\"go run ./cmd/windlass\" stands for \"windlass\" in a checkout.) Stop with Ctrl-C.")
}

// brokerEnded ends the process when its broker cannot go on. Commands that run
// are ended by their supervisor, as with any node that dies.
func brokerEnded(text string) {
	fmt.Fprintln(os.Stderr, "windlass: the embedded broker cannot go on:", text)
	os.Exit(exitFailed)
}
