package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

type specFlags struct {
	given     view.Spec
	retry     windlass.Retry
	notBefore string
	tags      []string
}

func (f *specFlags) register(cmd *cobra.Command) {
	flags, s := cmd.Flags(), &f.given
	flags.IntVar(&s.Priority, "priority", 0, "higher is claimed first, from -1000 to 1000")
	flags.StringSliceVar(&s.Needs, "needs", nil, "tasks that must be done before this one starts; JOB|* is the job and all below it")
	flags.StringVar(&f.notBefore, "not-before", "", "earliest time to start: RFC 3339, or a duration from now")
	flags.IntVar(&s.Weight, "weight", 0, "how much of a node's share and capacity it takes, 1 to 1000; default 1")
	flags.StringToStringVar(&s.Require, "require", nil, "label that a node must have, as key=value; zone=Z for its zone; repeatable")
	flags.StringToStringVar(&s.Prefer, "prefer", nil, "label that nodes are preferred by, as key=value; repeatable")
	flags.StringVar(&s.Node, "node", "", "the only node that may run it")
	flags.StringVar(&s.Group, "group", "", "tasks of one group go to different zones and nodes, as far as there are enough")
	flags.DurationVar((*time.Duration)(&s.Timeout), "timeout", 0, "limit of each run; a longer run is stopped and counts as an error; 0 for no limit")
	flags.StringVar((*string)(&s.OnFailure), "on-failure", "", "what happens to tasks that need this one if it fails: block, skip or run; default block")
	flags.StringArrayVar(&f.tags, "tag", nil, "attribute to find it by, as key=value, which decides nothing; repeatable; an update replaces all of them")
	completeFlag(cmd, "on-failure", []windlass.OnFailure{windlass.FailureBlocks, windlass.FailureSkips, windlass.FailureRuns})

	r := &f.retry
	flags.IntVar(&r.Errors, "retry-errors", 0, "errors within --retry-window after which it fails for good, 1 to 1000; -1 for no limit; default 25 for a job of the tree, no limit for other tasks")
	flags.DurationVar((*time.Duration)(&r.Window), "retry-window", 0, "time for which an error counts; default 4h")
	flags.DurationVar((*time.Duration)(&r.Min), "retry-min", 0, "pause after the first error, which doubles with each further error; the actual pause is random between half of it and all of it; default 1s")
	flags.DurationVar((*time.Duration)(&r.Max), "retry-max", 0, "longest pause between two runs; default 10m")
	flags.IntVar(&r.Deaths, "retry-deaths", 0, fmt.Sprintf("how many nodes may die within an hour while they run it, before it fails as the culprit, 1 to %d; -1 for no limit; default %d", windlass.DeathsMax, windlass.DeathsDefault))
}

// line is what was given.
func (f *specFlags) line(changed func(flag string) bool) (view.Spec, error) {
	s := f.given
	if slices.ContainsFunc([]string{"retry-errors", "retry-window", "retry-min", "retry-max", "retry-deaths"}, changed) {
		s.Retry = &f.retry
	}
	var err error
	if s.NotBefore, err = parseTime(f.notBefore); err != nil {
		return s, usagef("--not-before %q: %w", f.notBefore, err)
	}
	s.Tags, err = view.ParseTags("--tag", f.tags)
	return s, err
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
