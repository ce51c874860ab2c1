package balancer

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// system writes the files of a system and returns their root.
func system(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	kB = 1 << 10
	// meminfo has 600 kB used of 1000 kB.
	meminfo = "MemTotal:           1000 kB\nMemFree:             100 kB\nMemAvailable:        400 kB\nCached:              700 kB\n"
	mountV2 = "25 30 0:23 / /proc rw - proc proc rw\n29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	// With version 1, a Docker container sees its own group as the mounted root.
	mountV1 = "35 31 0:31 /docker/ab /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n" +
		"35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)

func groupV2(dir, limit, current, stat string) map[string]string {
	dir = "sys/fs/cgroup/" + dir
	return map[string]string{dir + "/memory.max": limit + "\n", dir + "/memory.current": current + "\n", dir + "/memory.stat": stat}
}

func merged(all ...map[string]string) map[string]string {
	files := map[string]string{}
	for _, m := range all {
		maps.Copy(files, m)
	}
	return files
}

func TestMemory_M41_ReportsTheTighterLimit(t *testing.T) {
	machine := map[string]string{"proc/meminfo": meminfo}
	v2 := merged(machine, map[string]string{"proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a/b\n"})
	v1 := merged(machine, map[string]string{
		"proc/self/mountinfo": mountV1, "proc/self/cgroup": "5:cpu:/docker/ab\n4:memory:/docker/ab\n0::/\n",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": "90000", "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 10000\n",
	})
	const cache = "anon 5\nfile 9\ninactive_file 10000\n"
	for _, c := range []struct {
		name        string
		files       map[string]string
		used, total uint64
	}{
		{"no control groups", machine, 600 * kB, 1000 * kB},
		{"a group without a limit", merged(v2, groupV2("a/b", "max", "90000", cache)), 600 * kB, 1000 * kB},
		{"a group that is tighter", merged(v2, groupV2("a/b", "100000", "90000", cache)), 80000, 100000},
		{"a group that is less tight", merged(v2, groupV2("a/b", "200000", "90000", cache)), 600 * kB, 1000 * kB},
		{"a group above it that is tighter", merged(v2,
			groupV2("a/b", "100000", "90000", cache), groupV2("a", "200000", "190000", cache)), 180000, 200000},
		{"more cache than use", merged(v2, groupV2("a/b", "100000", "5000", cache)), 600 * kB, 1000 * kB},
		{"a limit of zero", merged(v2, groupV2("a/b", "0", "90000", cache)), 80000, 1},
		{"a limit above the machine's memory", merged(v2, groupV2("a/b", "9000000", "8900000", cache)), 600 * kB, 1000 * kB},
		{"version 1", merged(v1, map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "100000"}), 80000, 100000},
		{"version 1 without a limit", merged(v1,
			map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}), 600 * kB, 1000 * kB},
		{"a container that sees its group as the top", merged(
			v2, map[string]string{"proc/self/cgroup": "0::/\n"}, groupV2("", "100000", "90000", cache)), 80000, 100000},
	} {
		m, err := memoryAt(system(t, c.files))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if used, total, err := m.Used(); err != nil || used != c.used || total != c.total {
			t.Errorf("%s: %d of %d (%v), want %d of %d", c.name, used, total, err, c.used, c.total)
		}
	}
}

func TestMemory_M41_ErrorsNameTheFileOrField(t *testing.T) {
	v2 := map[string]string{"proc/meminfo": meminfo, "proc/self/mountinfo": mountV2, "proc/self/cgroup": "0::/a\n"}
	for want, files := range map[string]map[string]string{
		"proc/meminfo":              nil,
		"MemAvailable: is missing":  {"proc/meminfo": "MemTotal: 5 kB\n"},
		`MemTotal: strconv`:         {"proc/meminfo": "MemTotal: x kB\n"},
		"too large":                 {"proc/meminfo": "MemTotal: 18446744073709551615 kB\n"},
		"proc/self/cgroup":          {"proc/meminfo": meminfo, "proc/self/mountinfo": mountV2},
		"memory.max: strconv":       merged(v2, groupV2("a", "lots", "1", "")),
		"memory.current: strconv":   merged(v2, groupV2("a", "1", "", "")),
		"inactive_file is missing":  merged(v2, groupV2("a", "1", "1", "")),
		"memory.current: no such f": merged(v2, map[string]string{"sys/fs/cgroup/a/memory.max": "1"}),
	} {
		if _, err := memoryAt(system(t, files)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
	if _, err := memoryAt(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestMemory_FindsTheFoldersOfItsGroup(t *testing.T) {
	for _, c := range []struct {
		mount groupMount
		group string
		want  string
	}{
		{groupMount{point: "/c", root: "/"}, "/", "/c"},
		{groupMount{point: "/c", root: "/"}, "/a/b", "/c/a/b /c/a /c"},
		{groupMount{point: "/c", root: "/a"}, "/a/b", "/c/b /c"},
		{groupMount{point: "/c", root: "/a"}, "/ab", "/c"},
		{groupMount{point: "/c", root: "/../.."}, "/", "/c"},
		{groupMount{point: "/c", root: "/"}, "/../x", "/c/x /c"},
		{groupMount{point: "/c", root: "/", v2: true}, "/x:y", "/c/x:y /c"},
	} {
		line := "3:memory:" + c.group + "\n"
		if c.mount.v2 {
			line = "3:memory:/other\n0::" + c.group + "\n"
		}
		if got := strings.Join(c.mount.folders(line), " "); got != c.want {
			t.Errorf("%s at %+v: %q, want %q", c.group, c.mount, got, c.want)
		}
	}
	if m := groupMounts(`1 2 0:3 / /a\040b rw - cgroup2 none rw`); len(m) != 1 || m[0].point != "/a b" || len(groupMounts("nonsense\n - \n")) != 0 {
		t.Errorf("%+v", m)
	}
}

func FuzzMemoryGroups(f *testing.F) {
	f.Add(mountV1, "4:memory:/docker/ab\n0::/\n")
	f.Add(mountV2, "0::/../x\n")
	f.Fuzz(func(t *testing.T, mounts, groups string) {
		for _, m := range groupMounts(mounts) {
			for _, dir := range m.folders(groups) {
				if strings.Contains("/"+strings.TrimPrefix(dir, m.point)+"/", "/../") {
					t.Errorf("%q leads out of %+v", dir, m)
				}
			}
		}
	})
}

func TestMemory_M41_ReadsThisMachine(t *testing.T) {
	m, err := NewMemory()
	if err != nil {
		t.Fatal(err)
	}
	used, total, err := m.Used()
	if err != nil || used == 0 || used > total || m.String() != "bytes" {
		t.Errorf("%d of %d %s (%v)", used, total, m, err)
	}
	if _, err := NewResource(m, 99, 100); err != nil {
		t.Error(err)
	}
}

func BenchmarkMemory(b *testing.B) {
	m, err := NewMemory()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := m.Used(); err != nil {
			b.Fatal(err)
		}
	}
}
