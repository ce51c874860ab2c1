package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/bench/internal/stats"
)

// machine says what the run is on. What the system does not tell is left out.
func machine(dir string) (facts []report.Fact) {
	add := func(name, value string) {
		if value = strings.TrimSpace(value); value != "" {
			facts = append(facts, report.Fact{Name: name, Value: value})
		}
	}
	add("processors", fmt.Sprintf("%d %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name")))
	add("memory", field("/proc/meminfo", "MemTotal"))
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only Linux has it
	add("system", fmt.Sprintf("%s/%s %s", runtime.GOOS, runtime.GOARCH, kernel))
	if median, err := fsyncTime(dir); err == nil {
		add("one write of 4 KiB to disk", report.WithUnit(median, report.Milliseconds))
	}
	load, _ := os.ReadFile("/proc/loadavg") // as above
	if fields := strings.Fields(string(load)); len(fields) > 0 {
		add("load before the run", fields[0])
	}
	return facts
}

// field is what follows a name and a colon in a file, where it is first.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fsyncTime is how long it takes until a write is on disk, in the median, in
// milliseconds: what every side of every comparison pays.
func fsyncTime(dir string) (median float64, err error) {
	const writes = 100
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer f.Close() // what is in it is of no use
	page := make([]byte, 4096)
	var times []float64
	for range writes {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times = append(times, float64(time.Since(began))/float64(time.Millisecond))
	}
	return stats.Median(times), nil
}

// modules are those whose versions matter.
var modules = []struct{ path, name string }{
	{"github.com/riverqueue/river", "River"}, {"github.com/jackc/pgx/v5", "pgx"}, {"github.com/hibiken/asynq", "asynq"},
	{"go.etcd.io/etcd/client/v3", "etcd's client"},
}

// versions are those of everything that takes part.
func versions() (facts []report.Fact) {
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, report.Fact{Name: name, Value: value})
		}
	}
	add("Go", strings.TrimPrefix(runtime.Version(), "go"))
	add("etcd", servers.EtcdVersion)
	if servers.MissingPostgres() == "" {
		add("PostgreSQL", servers.PostgresVersion())
	}
	if servers.MissingRedis() == "" {
		add("Redis", servers.RedisVersion())
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return facts
	}
	for _, m := range modules {
		for _, dep := range info.Deps {
			if dep.Path == m.path {
				add(m.name, dep.Version)
			}
		}
	}
	return facts
}
