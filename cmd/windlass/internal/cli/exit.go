package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/election"
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

// usageError is a command line that makes no sense.
type usageError struct{ error }

// Unwrap makes the cause visible.
func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// hintedError is an error with what to do about it, where that depends on what
// was being done.
type hintedError struct {
	error
	hint string
}

// Unwrap makes the cause visible.
func (e hintedError) Unwrap() error { return e.error }

// exitCodes is the one table from errors to exit codes, the first match counts.
var exitCodes = []struct {
	err  error
	code int
}{
	{windlass.ErrNotFound, exitNotFound},
	{windlass.ErrEmpty, exitNotFound},
	{tree.ErrNoMatch, exitNotFound},
	{election.ErrNoLeader, exitNotFound},
	{windlass.ErrWorking, exitConflict},
	{session.ErrDeadline, exitUnavailable},
	{windlass.ErrFenced, exitConflict},
	{windlass.ErrLost, exitConflict},
	{windlass.ErrKilled, exitConflict},
	{windlass.ErrDeleted, exitConflict},
	{windlass.ErrExists, exitConflict},
	{windlass.ErrFinished, exitConflict},
	{windlass.ErrSuperseded, exitConflict},
	{windlass.ErrDiscarded, exitConflict},
	{windlass.ErrNameTaken, exitConflict},
	{election.ErrNotLeader, exitConflict},
	{election.ErrNameTaken, exitConflict},
	{errNotElected, exitConflict},
	{errCopyNotEmpty, exitConflict},
	{errNoDev, exitUnavailable},
	{broker.ErrUnavailable, exitUnavailable},
	{broker.ErrNoQuorum, exitUnavailable},
	{broker.ErrNoSpace, exitUnavailable},
	{windlass.ErrLayout, exitFailed},
	{errUnhealthy, exitFailed},
	{errChanges, exitChanges},
	{context.Canceled, exitInterrupted},
}

func exitCode(err error) int {
	var usage usageError
	var input *windlass.BadInputError
	var props *exectask.InputError
	var locked *embedded.LockedError
	var command *commandError
	var taken takenError
	var over leadershipError
	var election *election.ConfigError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage), errors.As(err, &input), errors.As(err, &props), errors.As(err, &election):
		return exitUsage
	case errors.As(err, &locked):
		return exitConflict
	case errors.As(err, &command):
		return command.code
	}
	for _, row := range exitCodes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	if errors.As(err, &taken) || errors.As(err, &over) {
		return exitConflict
	}
	return exitFailed
}

// describe is an error with what to do about it, where that is known.
func describe(err error) string {
	var hinted hintedError
	var usage usageError
	switch text := err.Error(); {
	case errors.Is(err, embedded.ErrNotRunning), errors.Is(err, errNoDev):
		return text + "\nStart one with \"windlass dev\", or name another broker with --broker."
	case errors.Is(err, broker.ErrNoSpace):
		return text + "\nThe broker is full. \"windlass doctor --fix\" frees what nothing uses; delete what is not needed."
	case errors.Is(err, windlass.ErrLayout):
		return text + "\nUse a newer version of windlass."
	case errors.Is(err, windlass.ErrFenced):
		return text + "\nWhoever took it since has another token; what was done with this one is not kept."
	case errors.As(err, &hinted):
		return text + "\n" + hinted.hint
	case errors.As(err, &usage): // it names what is wrong
		return text
	case errors.Is(err, fs.ErrPermission):
		return text + "\nAn embedded broker can be used by the user who started it only."
	default:
		return text
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown command or argument %q; see %s --help", args[0], cmd.CommandPath())
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
