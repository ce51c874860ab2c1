package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mount is a mounted file system of control groups: the group root is at the path point.
type mount struct{ root, point string }

// ownFolder returns the folder of this process's group.
func ownFolder() (string, mount, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", mount{}, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", mount{}, err
	}
	path, err := pathOf(string(groups))
	if err != nil {
		return "", mount{}, err
	}
	for _, m := range mountsOf(string(mounts)) {
		if rest, ok := below(path, m.root); ok {
			return filepath.Join(m.point, rest), m, nil
		}
	}
	return "", mount{}, fmt.Errorf("group %s is not mounted", path)
}

// pathOf parses /proc/<pid>/cgroup.
func pathOf(groups string) (string, error) {
	for line := range strings.Lines(groups) {
		// The other lines are of version 1.
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return strings.TrimSuffix(path, " (deleted)"), nil
		}
	}
	return "", errors.New("there is no version 2")
}

// mountsOf parses /proc/<pid>/mountinfo. On hosts with both versions, the second is not at
// the usual place.
func mountsOf(info string) (mounts []mount) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(info) {
		front, back, ok := strings.Cut(line, " - ")
		fields := strings.Fields(front)
		if !ok || len(fields) < 5 || !strings.HasPrefix(back, "cgroup2 ") {
			continue
		}
		mounts = append(mounts, mount{unescape.Replace(fields[3]), unescape.Replace(fields[4])})
	}
	return mounts
}

// below returns a path relative to root, and whether it is below it.
func below(path, root string) (string, bool) {
	if root == "/" {
		return path, true
	}
	rest, ok := strings.CutPrefix(path, root)
	return rest, ok && (rest == "" || rest[0] == '/')
}
