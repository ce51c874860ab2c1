package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/session"
)

// logSpaceMax bounds --log-space, in MiB: a TiB.
const logSpaceMax = 1 << 20

func (a *app) nodeCommand() *cobra.Command {
	var c workerConfig
	var allow allowFlags
	var execUser string
	var verbose bool
	var logSpace int64
	var exposed nodeHTTPFlags
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Run a node that runs OS commands; or list and direct nodes",
		Long: `Run a node that joins a broker and runs tasks of type "exec". It runs only the
commands that --exec-allow names, and without one nothing at all.

It works until it gets SIGTERM, SIGHUP or an interrupt; then it stops its commands, gives
the tasks back and leaves. When the broker goes away it stops its commands before
its session can expire, and joins again when the broker is back.`,
		Example: `  windlass node --broker etcd://10.0.0.1:2379 --name n1 --exec-allow /usr/bin/rsync`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.log, c.Namespace = a.logger(slog.LevelInfo, verbose), a.namespace
			if c.logAge <= 0 {
				return usagef("--log-age %v: must be positive", c.logAge)
			}
			if logSpace < 1 || logSpace > logSpaceMax {
				return usagef("--log-space %d: must be from 1 to %d", logSpace, logSpaceMax)
			}
			c.logSpace = logSpace << 20
			if cmd.Flags().Changed("exec-user") {
				var err error
				if c.user, err = exectask.FindUser(execUser); err != nil {
					return usagef("--exec-user: %w", err)
				}
			}
			return a.runNode(cmd.Context(), c, allow, exposed)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Name, "name", "", "name of the node, unique among live nodes; default: the host's")
	allow.register(flags, nil)
	flags.StringVar(&execUser, "exec-user", "", "user, by name or number, whom commands run as, so that they cannot reach the node and its files; needs root; default: the node's own")
	flags.DurationVar(&c.SessionTTL, "session-ttl", session.TTLDefault, "how long the node may be out of touch before others take over, 5s to 300s")
	flags.StringVar(&c.LogDir, "log-dir", "", "folder for the output of tasks; default: one per node in this user's state folder")
	flags.BoolVar(&c.trustAbove, "trust-log-parents", false, "take --log-dir also below a folder that others may write to, as in a pod: they could have the output go elsewhere")
	flags.DurationVar(&c.logAge, "log-age", exectask.LogAgeDefault, "for how long the output of a task is kept after it was last written to")
	flags.Int64Var(&logSpace, "log-space", exectask.LogSpaceDefault>>20, "MiB that the output of all tasks may take before the oldest is removed; 1 to 1048576")
	flags.StringVar(&c.Zone, "zone", "", "zone of the node, for tasks that ask for it and for the spread of groups")
	flags.StringToStringVar(&c.Labels, "label", nil, "label of the node, for tasks that ask for it, as key=value; repeatable")
	flags.IntVar(&c.Weight, "weight", 0, "the node's share of the work beside that of others, 1 to 1000; default 1")
	flags.IntVar(&c.Capacity, "capacity", 0, "limit of the total weight of the node's tasks; 0 for no limit")
	flags.DurationVar(&c.ReturnWithin, "return-within", 0, "for how long others leave this node's tasks alone when it goes, in case it comes back; at most 10m")
	flags.IntVar(&c.FailoverRate, "failover-rate", 0, "tasks a second that the node takes over when most nodes vanish at once; default 200")
	flags.IntVar(&c.memoryClaim, "memory-claim-limit", 0, "percent of the memory in use from which on the node claims nothing; 0 for no limit")
	flags.IntVar(&c.memoryRelease, "memory-release-limit", 0, "percent of the memory in use from which on it gives tasks away; must be higher")
	registerConcurrency(flags, &c.Concurrency)
	registerRetention(flags, &c.Retention)
	exposed.register(flags)
	flags.BoolVarP(&verbose, "verbose", "v", false, "log what happens to each task")
	cmd.AddCommand(a.nodeListCommand(), a.nodeGetCommand(), a.nodeDeathsCommand(),
		a.plainNodeCommand("freeze", operate.Freeze, "Make nodes claim nothing and keep what they run"),
		a.plainNodeCommand("unfreeze", operate.Unfreeze, "Make nodes claim again after freeze"),
		a.plainNodeCommand("balance", operate.Balance, "Make nodes rebalance at once, frozen or not"),
		a.cordonCommand(), a.uncordonCommand(), a.drainCommand(), a.stopTaskCommand())
	return cmd
}

func (a *app) runNode(ctx context.Context, c workerConfig, allow allowFlags, exposed nodeHTTPFlags) error {
	if err := cmp.Or(checkSessionTTL(c.SessionTTL), checkRetention(c.Retention)); err != nil {
		return err
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return usagef("--name is not set, and the host has none: %w", err)
		}
		c.Name = host
	}
	if err := keys.CheckNodeName(c.Name); err != nil {
		return usagef("--name: %w", err)
	}
	var err error
	if c.allow, err = allow.allow(); err != nil {
		return err
	}
	if c.LogDir == "" {
		if c.LogDir, err = defaultLogDir(c.Name); err != nil {
			return err
		}
	}
	if c.LogDir, err = filepath.Abs(c.LogDir); err != nil {
		return usagef("--log-dir: %w", err)
	}
	http, err := exposed.open(&c)
	if err != nil {
		return err
	}
	stopTracing, err := a.startTracing(ctx, c.log, &c.Tracer)
	if err != nil {
		return errors.Join(err, http.close())
	}
	defer stopTracing()
	b, err := a.openPatiently(ctx)
	if err != nil {
		return errors.Join(err, http.close())
	}
	outliveReaders()
	c.exitOnFence = true
	w, err := newWorker(ctx, b, c)
	if err != nil {
		return errors.Join(err, b.Close(), http.close())
	}
	http.serve(w.node)
	user := "its own"
	if c.user != nil {
		user = c.user.Name
	}
	c.log.Info("starting", "node", c.Name, "allow", c.allow.String(), "user", user, "output", c.LogDir)
	if err := w.supervisor.Ungrouped(); err != nil {
		c.log.Warn("commands have no control group of their own, so what they detach from themselves may outlive a node that is killed", "cause", err)
	}
	began := time.Now()
	err = errors.Join(w.run(ctx), http.close())
	c.log.Info("stopped", "took", time.Since(began).Round(time.Second))
	return err
}
