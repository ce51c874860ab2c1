// Command peers compares Windlass with what else could be used, all in one run on
// one machine, and writes down what it found; see docs/benchmarks.md.
//
//	peers run [--quick] [--out DIR] [WORKLOAD...]      measure
//	peers record [--from DIR] [--docs DIR]             put a run's report into the documents
//	peers profile [--out DIR] WORKLOAD                 run a workload of ours with profiles
//
// It starts itself again for the processes that a comparison needs. Called by the
// name of windlass, it is the command line of Windlass, for "windlass bench".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/windlass-go/windlass/bench/internal/fleet"
	"github.com/windlass-go/windlass/bench/internal/jobs"
	"github.com/windlass-go/windlass/bench/internal/proc"
	"github.com/windlass-go/windlass/bench/internal/profile"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/internal/cli"
)

func main() { os.Exit(start(os.Args, os.Stdin, os.Stdout, os.Stderr)) }

// start is one process: a role of a comparison, Windlass itself, or a command.
func start(args []string, in io.Reader, out, errs io.Writer) int {
	role := "driver"
	if filepath.Base(args[0]) == fleet.Windlass {
		role = fleet.Windlass
	} else if len(args) > 1 && roles[args[1]] != nil {
		role = args[1]
	}
	stop, err := profile.Begin(role)
	if err != nil {
		fmt.Fprintln(errs, "peers:", err)
		return 1
	}
	code := dispatch(role, args, in, out, errs)
	if err := stop(); err != nil {
		fmt.Fprintln(errs, "peers:", err)
		return max(code, 1)
	}
	return code
}

func dispatch(role string, args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role == fleet.Windlass {
		return cli.Main(ctx, args[1:], in, out, errs)
	}
	var err error
	if body := roles[role]; body != nil {
		if len(args) != 3 {
			err = fmt.Errorf("%s: it is started by another process, with one argument", role)
		} else {
			err = body(ctx, in, out, args[2])
		}
	} else {
		err = command(ctx, args[1:], out, errs)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(errs, "peers:", err)
		return 2
	}
	fmt.Fprintln(errs, "peers:", err)
	return 1
}

// roles are the processes that a comparison consists of, by their first argument.
var roles = map[string]func(ctx context.Context, in io.Reader, out io.Writer, order string) error{
	proc.KeeperRole: func(_ context.Context, in io.Reader, _ io.Writer, order string) error {
		return proc.RunKeeper(in, order)
	},
	servers.EtcdRole: func(_ context.Context, in io.Reader, out io.Writer, order string) error {
		return servers.RunEtcdMember(in, out, order)
	},
	jobs.WorkerRole: jobs.RunWorker,
	measureCommand:  measure,
}

// errUsage is wrapped by errors about the command line.
var errUsage = errors.New("usage")

// command runs what a user asks for.
func command(ctx context.Context, args []string, out, errs io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: peers run|record|profile", errUsage)
	}
	switch args[0] {
	case "run":
		return runCommand(ctx, args[1:], out, errs)
	case "record":
		return recordCommand(args[1:], out, errs)
	case "profile":
		return profileCommand(ctx, args[1:], out, errs)
	}
	return fmt.Errorf("%w: command %q: must be run, record or profile", errUsage, args[0])
}

// parse reads flags and returns the arguments after them.
func parse(name string, args []string, errs io.Writer, define func(*flag.FlagSet)) ([]string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(errs)
	define(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return flags.Args(), nil
}
