package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// app is one invocation: its streams and its global flags.
type app struct {
	in        io.Reader
	out       io.Writer
	err       io.Writer
	output    string
	broker    brokerFlags
	namespace string
	// quiet shows no progress.
	quiet bool
}

// Main runs one invocation and returns its exit code; see exit.go. If a signal has interrupted it,
// the process ends by that signal.
func Main(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	ctx, told := untilTold(ctx)
	defer told.stop()
	ctx = windlass.WithCaller(ctx, caller())
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
	if code := exitCode(err); code != exitInterrupted {
		return code
	}
	return told.end()
}

// caller is who runs this process, for histories, as far as that is known.
func caller() string {
	name := os.Getenv("USER")
	if me, err := user.Current(); err == nil {
		name = me.Username
	}
	if host, err := os.Hostname(); err == nil {
		return name + "@" + host
	}
	return name
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
		Version:           view.BuildVersion().Version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noArgs,
		PersistentPreRunE: fromEnvironment,
		RunE:              help,
	}
	root.SetVersionTemplate("windlass {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{suggestFlag(cmd, err)} })
	flags := root.PersistentFlags()
	a.broker.register(flags)
	flags.StringVar(&a.namespace, "namespace", "/windlass", "namespace of the tasks on the broker")
	flags.BoolVar(&a.quiet, "quiet", false, "do not show on a terminal how far something has come")
	root.AddCommand(a.devCommand(), a.nodeCommand(), a.taskCommand(), a.typeCommand(), a.treeCommand(), a.electCommand(), a.electionCommand(), a.planCommand(), a.topCommand(), a.serveCommand(), a.tokenCommand(),
		a.doctorCommand(), a.copyCommand(), a.versionCommand(), a.supervisorCommand(), a.benchCommand(), manCommand())
	root.InitDefaultCompletionCmd()
	return root
}

// suggestFlag adds the flags that an unknown one may have meant.
func suggestFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Hidden: f.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	if like := flags.SuggestionsFor(unknown.GetSpecifiedName()); len(like) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(like, " or --"))
	}
	return err
}

// group is a command that only has subcommands.
func group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: help}
	cmd.AddCommand(subcommands...)
	return cmd
}

func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// outputFlag adds -o to a command that prints a table.
func (a *app) outputFlag(cmd *cobra.Command) *cobra.Command { return a.outputFlagOf(cmd, "table") }

// outputFlagOf adds -o to a command that prints a drawing or a table, and has the format
// checked before the command runs.
func (a *app) outputFlagOf(cmd *cobra.Command, drawing string) *cobra.Command {
	formats := []string{drawing, "json", "yaml"}
	output := cmd.Flags().StringP("output", "o", drawing, "output format: "+drawing+", json or yaml")
	completeFlag(cmd, "output", formats)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.output = *output; !slices.Contains(formats, a.output) {
			return usagef("-o %q: must be %s, json or yaml", a.output, drawing)
		}
		return nil
	}
	return cmd
}

// completeFlag offers the values of a flag to the shell.
func completeFlag[S ~string](cmd *cobra.Command, flag string, values []S) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(strings.Fields(names(values, " ")), cobra.ShellCompDirectiveNoFileComp))
}

// complete offers words to the shell, which has no place for an error.
func complete(cmd *cobra.Command, words func(ctx context.Context, offer func(string)) error) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	var offered []string
	_ = words(ctx, func(word string) { offered = append(offered, word) })
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// fromEnvironment sets the global flags that were not given from variables:
// --broker-user from WINDLASS_BROKER_USER, and so on.
func fromEnvironment(cmd *cobra.Command, _ []string) error {
	var failed error
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		name := "WINDLASS_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := os.LookupEnv(name)
		if f.Changed || !ok || failed != nil {
			return
		}
		if err := f.Value.Set(value); err != nil {
			failed = usagef("%s: %w", name, err)
		}
	})
	return failed
}
