package view

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/windlass-go/windlass/internal/stamp"
)

// Version says which program this is. Its JSON is stable.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Etcd     string `json:"etcd"`
	Platform string `json:"platform"`
}

// BuildVersion reads what the linker was told, and otherwise what the Go toolchain has
// recorded in the binary.
func BuildVersion() Version {
	v := Version{Version: cmp.Or(stamp.Version, "(devel)"), Revision: stamp.Revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = cmp.Or(stamp.Version, info.Main.Version, v.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = cmp.Or(stamp.Revision, s.Value)
		}
	}
	for _, d := range info.Deps {
		if d.Path == "go.etcd.io/etcd/server/v3" {
			v.Etcd = d.Version
		}
	}
	return v
}
