package balancer

import (
	"path"
	"slices"
	"strings"
)

// groupMount is a mounted hierarchy of control groups that may limit memory.
type groupMount struct {
	// point is where it is mounted, root the group that is seen there.
	point, root string
	// v2 is true for version 2, the single hierarchy for everything.
	v2 bool
}

// groupFiles are a version's names for its files, and for the cache that the kernel
// gives up first.
type groupFiles struct{ limit, usage, cache string }

func (g groupMount) files() groupFiles {
	if g.v2 {
		return groupFiles{limit: "memory.max", usage: "memory.current", cache: "inactive_file"}
	}
	return groupFiles{limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes", cache: "total_inactive_file"}
}

// groupMounts finds the hierarchies in /proc/self/mountinfo, whose lines are
//
//	36 35 98:0 /root /point rw,noatime master:1 - cgroup source rw,memory
func groupMounts(mountinfo string) (mounts []groupMount) {
	for line := range strings.Lines(mountinfo) {
		place, kind, ok := strings.Cut(line, " - ")
		at, of := strings.Fields(place), strings.Fields(kind)
		if !ok || len(at) < 5 || len(of) < 3 {
			continue
		}
		v2 := of[0] == "cgroup2"
		if v2 || of[0] == "cgroup" && slices.Contains(strings.Split(of[2], ","), "memory") {
			mounts = append(mounts, groupMount{point: unescape.Replace(at[4]), root: unescape.Replace(at[3]), v2: v2})
		}
	}
	return mounts
}

// unescape undoes what the kernel does to paths in mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// folders returns the folders of this process's group and of the visible ones above it.
// groups is /proc/self/cgroup, whose lines are
//
//	4:memory:/group
//	0::/group
func (g groupMount) folders(groups string) (dirs []string) {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || g.v2 != (parts[0] == "0" && parts[1] == "") ||
			!g.v2 && !slices.Contains(strings.Split(parts[1], ","), "memory") {
			continue
		}
		for dir := g.below(parts[2]); ; dir = path.Dir(dir) {
			dirs = append(dirs, path.Join(g.point, dir))
			if dir == "/" {
				return dirs
			}
		}
	}
	return nil
}

// below returns the path of a group under the mount. A group that is not under the
// mount's root, as in a container that sees only its own, is at the top.
func (g groupMount) below(group string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(g.root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "/"
	}
	return path.Join("/", rest)
}
