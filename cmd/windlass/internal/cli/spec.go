package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// specFlags are a view.Spec as flags.
type specFlags struct {
	given     view.Spec
	retry     retryFlags
	notBefore string
	onFailure string
}

func (f *specFlags) register(cmd *cobra.Command) {
	flags, s := cmd.Flags(), &f.given
	flags.IntVar(&s.Priority, "priority", 0, "higher is claimed first, from -1000 to 1000")
	flags.StringSliceVar(&s.Needs, "needs", nil, "tasks that must be done before this one starts")
	flags.StringVar(&f.notBefore, "not-before", "", "earliest time to start: RFC 3339, or a duration from now")
	flags.IntVar(&s.Weight, "weight", 0, "how much of a node's share and capacity it takes, 1 to 1000; default 1")
	flags.StringToStringVar(&s.Require, "require", nil, "label that a node must have, as key=value; zone=Z for its zone; repeatable")
	flags.StringToStringVar(&s.Prefer, "prefer", nil, "label that a node had better have, as key=value; repeatable")
	flags.StringVar(&s.Node, "node", "", "the only node that may run it")
	flags.StringVar(&s.Group, "group", "", "tasks of one group go to different zones and nodes, as far as there are enough")
	flags.DurationVar((*time.Duration)(&s.Timeout), "timeout", 0, "bound on each run, which is stopped then and counts as an error; 0 for none")
	flags.StringVar(&f.onFailure, "on-failure", "", "what its failure is for those that wait for it: block, skip or run; default block")
	policies := []string{string(windlass.FailureBlocks), string(windlass.FailureSkips), string(windlass.FailureRuns)}
	_ = cmd.RegisterFlagCompletionFunc("on-failure", cobra.FixedCompletions(policies, cobra.ShellCompDirectiveNoFileComp))
	f.retry.register(flags)
}

// line is what was given.
func (f *specFlags) line(flags *pflag.FlagSet) (view.Spec, error) {
	s := f.given
	s.Retry, s.OnFailure = f.retry.retry(flags), windlass.OnFailure(f.onFailure)
	var err error
	if s.NotBefore, err = parseTime(f.notBefore); err != nil {
		return s, usagef("--not-before %q: %w", f.notBefore, err)
	}
	return s, nil
}

func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d, durationErr := time.ParseDuration(text)
		if durationErr != nil {
			return time.Time{}, errors.New("must be like 2026-01-02T15:04:05Z or 90m")
		}
		at = time.Now().Add(d)
	}
	if at.Before(time.Now()) {
		return time.Time{}, errors.New("is in the past")
	}
	return at.UTC(), nil
}
