package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/tree"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
	exitInterrupted = 130
)

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hintedError is an error with what to do about it, where that depends on the command.
type hintedError struct {
	error
	hint string
}

func (e hintedError) Unwrap() error { return e.error }

// withHint adds a hint to an error of one kind.
func withHint(err, kind error, hint string) error {
	if errors.Is(err, kind) {
		return hintedError{err, hint}
	}
	return err
}

// exitCodes is the one table from errors to exit codes; the first match counts.
var exitCodes = []struct {
	code int
	errs []error
}{
	{exitNotFound, []error{windlass.ErrNotFound, windlass.ErrEmpty, tree.ErrNoMatch, election.ErrNoLeader}},
	{exitUnavailable, []error{session.ErrDeadline}},
	{exitConflict, []error{
		windlass.ErrWorking, windlass.ErrFenced, windlass.ErrLost, windlass.ErrKilled, windlass.ErrDeleted, windlass.ErrExists,
		windlass.ErrFinished, windlass.ErrSuperseded, windlass.ErrDiscarded, windlass.ErrNameTaken, windlass.ErrNoInput,
		election.ErrNotLeader, election.ErrNameTaken, errNotElected, errCopyNotEmpty, commands.ErrNeeded, errNowhere, errDead,
	}},
	{exitUnavailable, []error{errNoDev, broker.ErrUnavailable, broker.ErrNoQuorum, broker.ErrNoSpace}},
	{exitConflict, []error{windlass.ErrUnmetNeed}}, // unless the broker is the cause
	{exitFailed, []error{windlass.ErrLayout}},
	{exitChanges, []error{errChanges}},
	{exitInterrupted, []error{context.Canceled}},
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case is[usageError](err), is[*windlass.BadInputError](err), is[*exectask.InputError](err):
		return exitUsage
	case is[*embedded.LockedError](err):
		return exitConflict
	}
	if command, ok := errors.AsType[*commandError](err); ok {
		return command.code
	}
	for _, row := range exitCodes {
		if slices.ContainsFunc(row.errs, func(kind error) bool { return errors.Is(err, kind) }) {
			return row.code
		}
	}
	if is[takenError](err) || is[leadershipError](err) {
		return exitConflict
	}
	return exitFailed
}

// is reports whether there is an error of a type in the tree of err.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// describe is the text of an error with what to do about it, where that is known.
func describe(err error) string {
	if exitCode(err) == exitInterrupted {
		return "interrupted"
	}
	hint := ""
	switch hinted, ok := errors.AsType[hintedError](err); {
	case errors.Is(err, embedded.ErrNotRunning), errors.Is(err, errNoDev):
		hint = "Start one with \"windlass dev\", or name another broker with --broker."
	case errors.Is(err, broker.ErrNoSpace):
		hint = "The broker is full. \"windlass doctor --fix\" frees what nothing uses; delete what is not needed."
	case errors.Is(err, windlass.ErrLayout):
		hint = "Use a newer version of windlass."
	case errors.Is(err, windlass.ErrFenced):
		hint = "Whoever took it since has another token; what was done with this one is not kept."
	case ok:
		hint = hinted.hint
	case is[usageError](err): // its text is enough
	case errors.Is(err, fs.ErrPermission):
		hint = "An embedded broker can be used by the user who started it only."
	}
	return strings.TrimSuffix(err.Error()+"\n"+hint, "\n")
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		text := ""
		cmd.SuggestionsMinimumDistance = 2
		if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
			text = fmt.Sprintf("; did you mean %s?", strings.Join(like, " or "))
		}
		return usagef("unknown command or argument %q%s; see %s --help", args[0], text, cmd.CommandPath())
	}
	return nil
}

func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("%s needs %d argument(s) %q and got %d", cmd.CommandPath(), len(names), names, len(args))
		}
		return nil
	}
}

func minimumArgs(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s needs at least one %s", cmd.CommandPath(), name)
		}
		return nil
	}
}

// nameAndCommand accepts a NAME, and a command after --.
func nameAndCommand(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if n := cmd.ArgsLenAtDash(); n == 1 && len(args) > 1 || n == -1 && len(args) == 1 {
			return nil
		}
		return usagef("%s needs one %s; a command goes after --", cmd.CommandPath(), name)
	}
}
