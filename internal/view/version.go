package view

import (
	"runtime"
	"runtime/debug"
)

// Version says which program this is. Its JSON is stable.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
	Etcd     string `json:"etcd"`
	Platform string `json:"platform"`
}

// BuildVersion reads what the Go toolchain has recorded in the binary.
func BuildVersion() Version {
	v := Version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
