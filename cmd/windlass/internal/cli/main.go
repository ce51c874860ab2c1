package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/internal/view"
)

// app is one invocation: its streams and its global flags.
type app struct {
	in     io.Reader
	out    io.Writer
	err    io.Writer
	output string
	broker brokerFlags
	// namespace of the tasks.
	namespace string
	// quiet shows no progress.
	quiet bool
}

// Main runs one invocation and returns its exit code; see exit.go.
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := keepSecrets(); err != nil {
		fmt.Fprintln(errs, "windlass: other processes of this user can read this one's memory:", err)
	}
	a := &app{in: in, out: out, err: errs, broker: brokerFlags{warnings: errs}}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errChanges) {
		fmt.Fprintln(errs, "windlass:", view.EscapeText(describe(err)))
	}
	return exitCode(err)
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "windlass",
		Short: "Run work on a fleet: every task on exactly one node, with no master",
		Long: `Windlass runs work on a fleet: every task on exactly one node, spread evenly,
moved when nodes come and go, with no master.

Begin with "windlass dev", which starts a broker and nodes on this machine, and
then "windlass task submit" in another terminal.

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 broker
unavailable. Every flag of this page can be set in the environment as well:
--broker as WINDLASS_BROKER, and so on.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := root.PersistentFlags()
	a.broker.register(flags)
	flags.StringVar(&a.namespace, "namespace", "/windlass", "namespace of the tasks on the broker")
	flags.BoolVar(&a.quiet, "quiet", false, "do not show on a terminal how far something has come")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd) }
	root.AddCommand(a.devCommand(), a.nodeCommand(), a.taskCommand(), a.treeCommand(), a.electCommand(), a.electionCommand(), a.planCommand(), a.topCommand(), a.serveCommand(), a.tokenCommand(),
		a.doctorCommand(), a.copyCommand(), a.versionCommand(), a.supervisorCommand(), a.benchCommand())
	root.InitDefaultCompletionCmd()
	return root
}

// group is a command that only has subcommands.
func group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	cmd.AddCommand(subcommands...)
	return cmd
}

// outputFlag adds -o to a command that reads.
func (a *app) outputFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "output format: table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
