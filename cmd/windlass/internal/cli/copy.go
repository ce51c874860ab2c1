package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/internal/keys"
)

type copyFlags struct {
	from, to        string
	replace, verify bool
}

func (a *app) copyCommand() *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:   "copy --from BROKER --to BROKER",
		Short: "Copy a namespace to another broker",
		Long: `Copy the namespace from one broker to another: tasks with their properties, states,
histories and progress, and trees of jobs. What lives with a session, nodes, claims
and candidates, is not copied, and neither are commands that wait to be handled.

Nodes may be running meanwhile: what changes during the copy is copied again, until
nothing has changed. To move for good, copy, stop the nodes, copy again with --replace,
look with --verify, and start the nodes on the other broker. Fencing tokens are the store's own and begin anew.

BROKER is as in --broker. The other --broker flags apply to both brokers.`,
		Example: `  windlass copy --from etcd://10.0.0.1:2379 --to zookeeper://10.0.0.2:2181/windlass
  windlass copy --from data --to etcd://10.0.0.1:2379 --verify`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.from == "" || f.to == "":
				return usagef("%s needs --from and --to", cmd.CommandPath())
			case f.from == f.to:
				return usagef("--from and --to are both %q", f.from)
			case f.replace && f.verify:
				return usagef("--verify only compares, so that it does not go with --replace")
			}
			space, err := a.space()
			if err != nil {
				return err
			}
			return a.copy(cmd.Context(), f, space)
		},
	}
	cmd.Flags().StringVar(&f.from, "from", "", "broker to copy from")
	cmd.Flags().StringVar(&f.to, "to", "", "broker to copy to")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "copy also if the destination holds something; what only it has is deleted")
	cmd.Flags().BoolVar(&f.verify, "verify", false, "copy nothing: compare, list what differs, and exit with 1 if anything does")
	return a.outputFlag(cmd)
}

func (a *app) copy(ctx context.Context, f copyFlags, space keys.Space) (err error) {
	from, err := a.broker.openAddress(ctx, "--from", f.from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := a.broker.openAddress(ctx, "--to", f.to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	what := "reading"
	if f.verify {
		what = "comparing"
	}
	c := &copier{from: from, to: to, space: space, bar: a.newProgress(what, 0)}
	if f.verify {
		return a.verifyCopy(ctx, c)
	}
	done, err := c.run(ctx, f.replace)
	c.bar.end()
	if err != nil {
		return err
	}
	return a.print(done, func() table {
		return table{rows: [][]string{
			{"tasks", strconv.Itoa(done.Tasks)}, {"keys", strconv.Itoa(done.Keys)}, {"written", strconv.Itoa(done.Written)},
			{"deleted", strconv.Itoa(done.Deleted)}, {"passes", strconv.Itoa(done.Passes)},
		}}
	})
}

func (a *app) verifyCopy(ctx context.Context, c *copier) error {
	all, err := c.compare(ctx)
	c.bar.end()
	if err != nil {
		return err
	}
	err = a.print(all, func() table {
		if len(all) == 0 {
			return table{footer: "nothing differs"}
		}
		return table{heading: []string{"IS", "KEY"}, rows: rowsOf(all, func(d difference) []string { return []string{d.Is, d.Key} })}
	})
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("%w: %d key(s)", errCopyDiffers, len(all))
	}
	return err
}
