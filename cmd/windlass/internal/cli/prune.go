package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/view"
)

type pruneFlags struct {
	retention windlass.Retention
	selection selection
	consent   consent
}

func (a *app) taskPruneCommand() *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune --older-than DURATION --keep N",
		Short: "Forget tasks that have ended",
		Long: `Forget tasks that have ended, with their results and histories: those that ended
longer ago than --older-than, and those that are not among the latest --keep of
what is selected. Without --type and --status, what deleted tasks left behind goes
as well. Live tasks are never touched. Ended tasks that a live task needs are kept
until it has ended, since it may read their results. What has failed stays as long as
a live task waits for it; with --unblock it goes, and those that waited run.

Nodes can do the same by themselves; see --retention-age of "windlass node".`,
		Example: `  windlass task prune --older-than 168h --dry-run
  windlass task prune --keep 10000 --yes
  windlass task prune --older-than 24h --status completed --type report`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkPrune(cmd, &f); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error { return a.prune(cmd.Context(), c, f) })
		},
	}
	cmd.Flags().DurationVar(&f.retention.Age, "older-than", 0, "forget what ended longer ago than this")
	cmd.Flags().IntVar(&f.retention.Count, "keep", 0, "forget all but so many, the latest")
	cmd.Flags().BoolVar(&f.retention.Unblock, "unblock", false, "also forget failures that live tasks wait for, which then run")
	f.selection.register(cmd, view.Ended)
	a.completeNames(cmd)
	f.consent.register(cmd)
	return a.outputFlag(cmd)
}

func (a *app) checkPrune(cmd *cobra.Command, f *pruneFlags) error {
	byAge, byCount := cmd.Flags().Changed("older-than"), cmd.Flags().Changed("keep")
	switch {
	case !byAge && !byCount:
		return usagef("%s needs --older-than or --keep", cmd.CommandPath())
	case byAge && f.retention.Age <= 0:
		return usagef("--older-than %v: must be positive", f.retention.Age)
	case byCount && f.retention.Count <= 0:
		return usagef("--keep %d: must be at least 1", f.retention.Count)
	}
	return cmp.Or(f.selection.check(cmd, view.Ended), f.consent.check(a))
}

func (a *app) prune(ctx context.Context, c *windlass.Client, f pruneFlags) error {
	bar := a.newProgress("looking", 0)
	would, err := c.Prune(ctx, f.retention, f.selection.filter, true)
	bar.end()
	if err != nil {
		return err
	}
	if f.consent.dryRun || len(would.IDs) == 0 {
		return a.printPruned(would, f.consent.dryRun)
	}
	fmt.Fprintf(a.err, "%s to be forgotten; %s kept\n", previewOf(would.IDs), keptOf(would))
	if err := f.consent.ask(ctx, a, "Forget them?"); err != nil {
		return err
	}
	bar = a.newProgress("forgetting", len(would.IDs))
	done, err := c.Prune(meter.With(ctx, bar.set), f.retention, f.selection.filter, false)
	bar.end()
	return errors.Join(a.printPruned(done, false), err)
}

func (a *app) printPruned(p windlass.Pruned, dryRun bool) error {
	sum := view.PrunedOf(p, dryRun)
	return a.print(sum, func() table {
		if dryRun {
			t := previewTable("would forget", "task", p.IDs)
			t.add("would keep", keptOf(p)+" task(s)")
			return t
		}
		return table{rows: [][]string{{"forgotten", strconv.Itoa(sum.Forgotten)}, {"kept", keptOf(p)}}}
	})
}

// keptOf is how many were kept, and why.
func keptOf(p windlass.Pruned) string {
	text := strconv.Itoa(p.Kept)
	if p.Needed > 0 {
		text += fmt.Sprintf(" (%d since live tasks need them)", p.Needed)
	}
	if p.Blocking > 0 {
		text += fmt.Sprintf(" (%d failed, and live tasks wait for them: see --unblock)", p.Blocking)
	}
	return text
}
