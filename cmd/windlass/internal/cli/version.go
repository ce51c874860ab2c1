package cli

import (
	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the etcd in it",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := view.BuildVersion()
			return a.print(v, func() table {
				return table{rows: [][]string{{"windlass", v.Version}, {"revision", view.OrDash(v.Revision)}, {"etcd", v.Etcd},
					{"go", v.Go}, {"platform", v.Platform}}}
			})
		},
	}
	return a.outputFlag(cmd)
}
