package cli

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

type electFlags struct {
	name, candidate string
	command         []string
	observe         bool
	once            bool
	// wait bounds the wait for the first term, if limited is set.
	wait       time.Duration
	limited    bool
	sessionTTL time.Duration
	verbose    bool
}

func (a *app) electCommand() *cobra.Command {
	var f electFlags
	cmd := &cobra.Command{
		Use:   "elect NAME [flags] [-- COMMAND ARGUMENT...]",
		Short: "Run a command on one machine at a time: as long as this one leads",
		Long: `Join an election, and run a command while this process leads. Candidates queue up; the
first one leads, and when it leaves, the next one takes over.

The command finds in its environment WINDLASS_ELECTION, WINDLASS_CANDIDATE and
WINDLASS_TERM, the fencing token, which is higher than that of every leader before.
When the leadership ends, because the broker cannot be reached in time, because of
"election resign" or because somebody deleted the entry, the command and all that it
started get SIGTERM, and SIGKILL before anyone else can lead; so they do when windlass
itself is killed or frozen. Then windlass queues up again, at the end, and runs the
command anew when it leads again; with --once it ends. It also ends when the command
does, or by a signal, and lets the next one lead at once.

With --wait, another one that leads counts once its session is seen to be renewed,
which takes up to a fifth of its TTL. If it has died, this one leads when its session
is over. On ZooKeeper a dead one counts until its session expires.

With --observe it does not join, but prints who leads, and every change.

The command has no controlling terminal. It inherits the standard input of windlass.

Exit code: that of the command; 4 if another led for all of --wait, or had the
candidate's name, or if the leadership ended and --once is set, 5 if that was because
the broker was out of reach. If a signal ends it before the command has, it ends by
that signal: shells say 130 after an interrupt, 143 after SIGTERM.`,
		Example: `  windlass elect reports -- ./reporter --interval 1m
  windlass elect migrate --wait 0s -- ./migrate.sh
  windlass elect reports --observe -o json`,
		Args:              nameAndCommand("NAME"),
		ValidArgsFunction: a.completeElections,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.name, f.command = args[0], args[1:]
			if err := a.checkElect(cmd, &f); err != nil {
				return err
			}
			if f.observe {
				return a.observeElection(cmd.Context(), f.name)
			}
			f.limited = cmd.Flags().Changed("wait")
			return a.elect(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.candidate, "candidate", "", "name of this candidate; default: the host's and the process's number")
	flags.BoolVar(&f.observe, "observe", false, "print who leads, and every change, without joining")
	flags.BoolVar(&f.once, "once", false, "end when the leadership ends, instead of joining again")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait to lead for the first time; 0s: not at all; default: for ever")
	flags.DurationVar(&f.sessionTTL, "session-ttl", election.TTLDefault, "how long windlass may be out of touch before the next one leads, 5s to 300s")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log what happens")
	return a.outputFlag(cmd)
}

func (a *app) checkElect(cmd *cobra.Command, f *electFlags) error {
	excluded, why := []string{"output"}, "goes with --observe"
	if f.observe {
		excluded, why = []string{"candidate", "once", "wait", "session-ttl", "verbose"}, "does not go with --observe"
	}
	for _, name := range excluded {
		if cmd.Flags().Changed(name) {
			return usagef("--%s %s", name, why)
		}
	}
	switch {
	case f.observe && len(f.command) > 0:
		return usagef("--observe does not go with a command")
	case !f.observe && len(f.command) == 0:
		return usagef("%s needs a command after --, or --observe", cmd.CommandPath())
	case f.wait < 0:
		return usagef("--wait %v: must not be negative", f.wait)
	}
	if err := keys.CheckElectionName(f.name); err != nil {
		return usageError{err}
	}
	if f.name == keys.RetentionElection && !f.observe {
		return usagef("election %q is the nodes' own", f.name)
	}
	if err := session.CheckTTL(f.sessionTTL); err != nil || f.sessionTTL == 0 {
		return usagef("--session-ttl %v: must be from %v to %v", f.sessionTTL, session.TTLMin, session.TTLMax)
	}
	if f.candidate == "" {
		var err error
		if f.candidate, err = processName("--candidate", ""); err != nil {
			return err
		}
	}
	if err := keys.CheckCandidateName(f.candidate); err != nil {
		return usagef("--candidate: %w", err)
	}
	return nil
}

// elect stands in an election until the command has ended, or ctx is done.
func (a *app) elect(ctx context.Context, f electFlags) error {
	timing := session.Derive(f.sessionTTL)
	commands, err := a.newSupervised(f.candidate, f.command, timing)
	if err != nil {
		return err
	}
	b, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	outliveReaders()
	log := a.logger(slog.LevelWarn, f.verbose).With("election", f.name, "candidate", f.candidate)
	l := &leading{app: a, flags: f, commands: commands, log: log}
	var e *election.Election
	member, err := election.New(election.Config{
		Broker: b, Namespace: a.namespace, Candidate: f.candidate, TTL: f.sessionTTL, Renewed: commands.renewed,
		Fence: func([]string) { exitIfOverdue(log, l.overdue(), timing.Slack) },
	})
	if err == nil {
		e, err = member.Election(f.name, l.events())
	}
	if err == nil {
		err = e.Start()
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	err, ended := beside(ctx, member.Run, func(ctx context.Context) error { return l.lead(ctx, e) })
	if errors.Is(err, election.ErrStopped) && ended != nil {
		err = nil // ended says why
	}
	return errors.Join(err, ended, commands.flush(ctx), b.Close())
}
