package balancer

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Memory is a Reporter of main memory, in bytes. It reports the memory of the machine,
// or the memory that a control group of this process may use, whichever is closer to
// exhaustion. It exists for Linux only.
//
// For the machine it counts the memory that is not MemAvailable, so caches that the
// kernel would give up do not count. For a control group, of version 1 or 2, and for
// each one above it, it counts the usage without the inactive file cache, against the
// hard limit. A limit that is not below the machine's memory is ignored. Swap is left
// out.
type Memory struct {
	// root is a prefix for every path, for tests.
	root string
	// mounts are where the hierarchies that may limit memory are mounted.
	mounts []groupMount
}

var _ Reporter = (*Memory)(nil)

// NewMemory returns a reporter of this process's memory and reads it once. On systems
// other than Linux it returns errors.ErrUnsupported.
func NewMemory() (*Memory, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("memory of %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	return memoryAt("/")
}

// memoryAt is NewMemory for a system whose files are below root.
func memoryAt(root string) (*Memory, error) {
	m := &Memory{root: root}
	mounts, err := m.read("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	m.mounts = groupMounts(mounts)
	if _, _, err := m.Used(); err != nil {
		return nil, err
	}
	return m, nil
}

// String implements Reporter.
func (*Memory) String() string { return "bytes" }

// Used implements Reporter. It reads the groups of this process every time: the process
// may be moved.
func (m *Memory) Used() (used, total uint64, err error) {
	used, total, err = m.machine()
	if err != nil || len(m.mounts) == 0 {
		return used, total, err
	}
	groups, err := m.read("/proc/self/cgroup")
	if err != nil {
		return 0, 0, err
	}
	machine := total
	for _, mount := range m.mounts {
		for _, dir := range mount.folders(groups) {
			u, limit, err := m.group(mount, dir)
			if err != nil {
				return 0, 0, err
			}
			if limit < machine && tighter(u, limit, used, total) {
				used, total = u, limit
			}
		}
	}
	return used, total, nil
}

// tighter reports whether the fraction a/b is larger than c/d.
func tighter(a, b, c, d uint64) bool { return float64(a)*float64(d) > float64(c)*float64(b) }

// machine returns the memory of the machine.
func (m *Memory) machine() (used, total uint64, err error) {
	const path = "/proc/meminfo"
	text, err := m.read(path)
	if err != nil {
		return 0, 0, err
	}
	value := func(name string) (uint64, error) {
		n, err := field(text, name)
		if err == nil && n > math.MaxUint64>>10 {
			err = fmt.Errorf("%s %d kB: too large", name, n)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		return n << 10, nil
	}
	if total, err = value("MemTotal:"); err != nil {
		return 0, 0, err
	}
	available, err := value("MemAvailable:")
	if err != nil {
		return 0, 0, err
	}
	return total - min(available, total), total, nil
}

// group returns the memory of one control group. A group without a limit, such as the
// topmost, has the largest number as its limit.
func (m *Memory) group(mount groupMount, dir string) (used, limit uint64, err error) {
	files := mount.files()
	limit, err = m.number(filepath.Join(dir, files.limit))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, math.MaxUint64, nil
	}
	if err != nil || limit == math.MaxUint64 {
		return 0, limit, err
	}
	if used, err = m.number(filepath.Join(dir, files.usage)); err != nil {
		return 0, 0, err
	}
	path := filepath.Join(dir, "memory.stat")
	stat, err := m.read(path)
	if err != nil {
		return 0, 0, err
	}
	cache, err := field(stat, files.cache)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	// They were not read at the same moment, and a limit may be zero.
	return used - min(cache, used), max(limit, 1), nil
}

func (m *Memory) read(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(m.root, path))
	return string(text), err
}

// number reads a file that contains one number, or "max" for none.
func (m *Memory) number(path string) (uint64, error) {
	text, err := m.read(path)
	if err != nil {
		return 0, err
	}
	text = strings.TrimSpace(text)
	if text == "max" {
		return math.MaxUint64, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// field returns the number after a name at the start of a line.
func field(text, name string) (uint64, error) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s %w", name, err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s is missing", name)
}
