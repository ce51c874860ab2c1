package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionInfo is what "windlass version" prints. Its JSON is stable.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Etcd     string `json:"etcd"`
	Platform string `json:"platform"`
}

// buildVersion reads what the Go toolchain has recorded in the binary.
func buildVersion() versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, d := range info.Deps {
		if d.Path == "go.etcd.io/etcd/server/v3" {
			v.Etcd = d.Version
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program and of the etcd in it",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			return a.print(v, func() table {
				return table{rows: [][]string{{"windlass", v.Version}, {"revision", orDash(v.Revision)}, {"etcd", v.Etcd},
					{"go", v.Go}, {"platform", v.Platform}}}
			})
		},
	}
	return a.outputFlag(cmd)
}
