package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/tree"
)

type dequeueFlags struct {
	jobType  string
	nodeName string
	wait     bool
	lease    time.Duration
	// The others are for a command.
	command    []string
	count      int
	all        bool
	result     bool
	sessionTTL time.Duration
	verbose    bool
}

func (a *app) treeDequeueCommand() *cobra.Command {
	var f dequeueFlags
	cmd := &cobra.Command{
		Use:   "dequeue TYPE [flags] [-- COMMAND ARGUMENT...]",
		Short: "Take the next job of a type, and run a command with it",
		Long: `Take the next job of a type that is pending and not blocked: the one of the highest
priority, of those the one that was queued first.

With a command it is held for as long as that runs. The command gets the job's data
as its standard input, and in its environment WINDLASS_JOB_ID, WINDLASS_JOB_PATH,
WINDLASS_JOB_NAME, WINDLASS_JOB_TYPE and WINDLASS_JOB_TOKEN, the fencing token. Exit
code 0 completes the job, any other one fails it: it runs again later or fails for
good, as --retry-… of "tree queue" says. When windlass gets a signal, or the job is
taken away, the command and all that it started get SIGTERM, and SIGKILL later, and
the job is given back; so it is, and all that is killed, when windlass is killed. The
command has no terminal of its own.

Without a command the job is claimed for the time of --lease, and printed with the
token that "tree complete", "tree fail" and "tree release" need. The lease is not
renewed: when it expires, any node can claim the job.

Without --wait, there is nothing to take once all nodes that run the type are seen to
renew their sessions, which takes up to a fifth of their TTL. A job of a node that has
died is taken when its session is over. On ZooKeeper it is held until that expires.

A job that is taken away, by a command or because it was lost, is a failure of that
one job: of several, the others are still worked on. Standard output need not take what
the command writes for it to be kept by --result.

Exit code: that of the command, 4 for a job that was taken away, 5 if that was because
the broker was out of reach; of several the first that is not 0; 3 if there was nothing
to take. If a signal ends it, it ends by that signal: shells say 130 after an interrupt,
143 after SIGTERM.`,
		Example: `  windlass tree dequeue alpha -- ./process.sh
  windlass tree dequeue alpha --wait --all --result -- ./to-json.py
  windlass tree dequeue alpha --lease 60s -o json`,
		Args:              nameAndCommand("TYPE"),
		ValidArgsFunction: a.completePending,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.jobType, f.command = args[0], args[1:]
			if err := a.checkDequeue(cmd, &f); err != nil {
				return err
			}
			if len(f.command) > 0 {
				return a.dequeueInto(cmd.Context(), f)
			}
			return a.withTree(cmd.Context(), func(_ *tree.Tree, c *windlass.Client) error { return a.dequeueLease(cmd.Context(), c, f) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.wait, "wait", false, "wait until there is one")
	flags.StringVar(&f.nodeName, "node-name", "", "name of who holds it; default: dequeue-, the host's and the process's number")
	flags.DurationVar(&f.lease, "lease", session.TTLDefault, "without a command: for how long it is claimed, 5s to 300s")
	flags.IntVar(&f.count, "count", 1, "with a command: how many to take, one after the other")
	flags.BoolVar(&f.all, "all", false, "with a command: take all that there are, one after the other")
	flags.BoolVar(&f.result, "result", false, "with a command: keep what it writes to standard output as the result, if that is JSON")
	flags.DurationVar(&f.sessionTTL, "session-ttl", session.TTLDefault, "with a command: how long windlass may be out of touch before others take over, 5s to 300s")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "with a command: log what happens")
	return a.outputFlag(cmd)
}

func (a *app) checkDequeue(cmd *cobra.Command, f *dequeueFlags) error {
	flags := cmd.Flags()
	excluded, why := []string{"count", "all", "result", "session-ttl", "verbose"}, "goes with a command after --"
	if len(f.command) > 0 {
		excluded, why = []string{"lease", "output"}, "does not go with a command"
	}
	for _, name := range excluded {
		if flags.Changed(name) {
			return usagef("--%s %s", name, why)
		}
	}
	switch {
	case f.count < 1:
		return usagef("--count %d: must be at least 1", f.count)
	case f.all && flags.Changed("count"):
		return usagef("--all and --count exclude each other")
	}
	if err := session.CheckTTL(f.lease); err != nil || f.lease == 0 {
		return usagef("--lease %v: must be from %v to %v", f.lease, session.TTLMin, session.TTLMax)
	}
	if err := checkSessionTTL(f.sessionTTL); err != nil {
		return err
	}
	if f.nodeName == "" {
		var err error
		if f.nodeName, err = processName("--node-name", "dequeue-"); err != nil {
			return err
		}
	}
	if err := keys.CheckNodeName(f.nodeName); err != nil {
		return usagef("--node-name: %w", err)
	}
	return nil
}

// lookAgain is how often waitLease tries without a change.
const lookAgain = 2 * time.Second

// dequeueLease claims a job for a time. If its token cannot be printed, the job is
// given back, since nobody could end it.
func (a *app) dequeueLease(ctx context.Context, c *windlass.Client, f dequeueFlags) error {
	outliveReaders()
	leases := lease.New(c, nil)
	d, err := leases.Dequeue(ctx, f.jobType, f.nodeName, f.lease)
	switch {
	case !errors.Is(err, windlass.ErrEmpty):
	case f.wait:
		d, err = waitLease(ctx, c, f)
	default:
		if err := a.awaitHolders(ctx, f.jobType); err != nil {
			return err
		}
		d, err = leases.Dequeue(ctx, f.jobType, f.nodeName, f.lease)
	}
	if err != nil {
		return awaitable(err)
	}
	l := view.LeasedOf(d)
	printed := a.print(l, func() table {
		return table{heading: []string{"PATH", "TOKEN", "UNTIL", "DATA"}, rows: [][]string{{
			cmp.Or(string(l.Path), l.ID), strconv.FormatInt(l.Token, 10), l.Until.Format(time.RFC3339), view.OrDash(string(l.Data)),
		}}}
	})
	if printed == nil {
		return nil
	}
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), settleMax)
	defer done()
	return errors.Join(fmt.Errorf("job %s is given back, as its token could not be printed: %w", view.Printable(d.ID), printed),
		leases.Release(settling, d.ID, d.Token))
}

// waitLease tries after each change of a task of the type, and every lookAgain.
func waitLease(ctx context.Context, c *windlass.Client, f dequeueFlags) (d lease.Lease, err error) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan struct{}, 1)
	watching.Go(func() {
		for range c.WatchTasks(watched, windlass.Filter{Types: []string{f.jobType}}) {
			select {
			case changed <- struct{}{}:
			default: // one look is due already
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return d, ctx.Err()
		case <-changed:
		case <-time.After(lookAgain):
		}
		if d, err = lease.New(c, nil).Dequeue(ctx, f.jobType, f.nodeName, f.lease); !errors.Is(err, windlass.ErrEmpty) {
			return d, err
		}
	}
}

func awaitable(err error) error {
	return withHint(err, windlass.ErrEmpty, `--wait waits until there is one; "windlass tree pending" shows what is blocked.`)
}

// endCommand is a command that ends a claim of "tree dequeue --lease".
func (a *app) endCommand(cmd *cobra.Command, said string, end func(ctx context.Context, l *lease.Leases, id string, token int64) error) *cobra.Command {
	var token int64
	cmd.Long += `

The job must have been claimed by "tree dequeue" without a command. If that claim has
ended, this is refused with exit code 4: the job has ended, or another holds it.`
	cmd.Args, cmd.ValidArgsFunction = exactArgs("PATH"), a.completeWorking
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if token <= 0 {
			return usagef("%s needs --token", cmd.CommandPath())
		}
		id, err := jobID(args[0])
		if err != nil {
			return err
		}
		return a.withClient(cmd.Context(), func(c *windlass.Client) error {
			if err := end(cmd.Context(), lease.New(c, nil), id, token); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "%s %s\n", said, view.Printable(args[0]))
			return nil
		})
	}
	cmd.Flags().Int64Var(&token, "token", 0, `the token that "tree dequeue" has printed`)
	return cmd
}

func (a *app) treeCompleteCommand() *cobra.Command {
	var result string
	cmd := a.endCommand(&cobra.Command{
		Use: "complete PATH --token N", Short: "Complete a job that was dequeued",
		Long:    `Complete a job that was dequeued, with its result.`,
		Example: `  windlass tree complete requestFile_alpha --token 42 --result '{"pages":7}'`,
	}, "completed", func(ctx context.Context, l *lease.Leases, id string, token int64) error {
		return l.Complete(ctx, id, token, json.RawMessage(result))
	})
	cmd.Flags().StringVar(&result, "result", "", "what is kept as the result, as JSON")
	return cmd
}

func (a *app) treeFailCommand() *cobra.Command {
	var text string
	var permanent bool
	cmd := a.endCommand(&cobra.Command{
		Use: "fail PATH --token N --error TEXT", Short: "Report that a dequeued job has failed",
		Long: `Report that a dequeued job has failed. It runs again later or fails for good, as
--retry-… of "tree queue" says; with --permanent it fails for good at once.`,
		Example: `  windlass tree fail requestFile_alpha --token 42 --error 'no such file' --permanent`,
	}, "failed", func(ctx context.Context, l *lease.Leases, id string, token int64) error {
		if text == "" {
			return usagef("--error: must say what went wrong")
		}
		failure := errors.New(text)
		if permanent {
			failure = windlass.Permanent(failure)
		}
		return l.Fail(ctx, id, token, failure)
	})
	cmd.Flags().StringVar(&text, "error", "", "what went wrong")
	cmd.Flags().BoolVar(&permanent, "permanent", false, "fail it for good, without another run")
	return cmd
}

func (a *app) treeReleaseCommand() *cobra.Command {
	return a.endCommand(&cobra.Command{
		Use: "release PATH --token N", Short: "Give a job back that was dequeued",
		Long:    `Give a job back that was dequeued; others may take it at once.`,
		Example: `  windlass tree release requestFile_alpha --token 42`,
	}, "released", func(ctx context.Context, l *lease.Leases, id string, token int64) error {
		return l.Release(ctx, id, token)
	})
}
