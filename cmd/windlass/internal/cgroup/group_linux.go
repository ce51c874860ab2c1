package cgroup

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// prefix begins the name of every group that Make makes, makeMax is how often it tries.
	prefix  = "windlass-"
	makeMax = 3
	// pauseMin and pauseMax bound the pause between two checks of a group that ends.
	pauseMin, pauseMax = time.Millisecond, 50 * time.Millisecond
)

// Group is a group of processes. It is used by one goroutine at a time.
type Group struct {
	folder *os.File // open for the lock, and for starting processes in the group
}

// made matches the names that Make gives. Systemd's units may begin with prefix too.
var made = regexp.MustCompile("^" + prefix + "[A-Z2-7]{26}$")

// Make makes a group below the one of this process and holds it.
func Make() (g *Group, err error) {
	for range makeMax {
		// Sweep of another process may end it before it is held.
		if g, err = makeOnce(); err == nil || errors.Is(err, ErrUnavailable) {
			break
		}
	}
	return g, err
}

func makeOnce() (*Group, error) {
	own, _, err := ownFolder()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if _, err := os.Stat(filepath.Join(own, "cgroup.procs")); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	g, err := create(filepath.Join(own, prefix+rand.Text()))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(g.file("cgroup.kill")); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), g.Remove())
	}
	held, err := g.lock()
	if err == nil && !held {
		err = errors.New("another process holds it")
	}
	if err == nil {
		_, err = os.Stat(g.Dir()) // another process may have swept it before
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold group %s: %w", g.Dir(), err), g.Remove())
	}
	return g, nil
}

// create makes a folder and opens it.
func create(dir string) (*Group, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	g, err := Open(dir)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return g, nil
}

// Open opens an existing group without holding it.
func Open(dir string) (*Group, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open group: %w", err)
	}
	return &Group{folder}, nil
}

// Inherit returns the group of an inherited descriptor.
func Inherit(fd int, dir string) *Group { return &Group{os.NewFile(uintptr(fd), dir)} }

// Folder returns the group's open folder. A process that inherits it holds the group too.
func (g *Group) Folder() *os.File { return g.folder }

// Move moves a process into the group of a folder.
func Move(pid int, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("move process %d to group %s: %w", pid, dir, err)
	}
	return nil
}

// ChildOf returns the name of the group below this one that a process is in, or "".
func (g *Group) ChildOf(pid int) string {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return ""
	}
	path, err := pathOf(string(groups))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(path, "/"+filepath.Base(g.Dir())+"/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// Child makes a group below this one. It is not held.
func (g *Group) Child(name string) (*Group, error) { return create(filepath.Join(g.Dir(), name)) }

// Dir returns the path of the group's folder.
func (g *Group) Dir() string { return g.folder.Name() }

// FD returns the descriptor for syscall.SysProcAttr.CgroupFD.
func (g *Group) FD() int { return int(g.folder.Fd()) }

func (g *Group) file(name string) string { return filepath.Join(g.Dir(), name) }

// lock holds the group, unless another process does.
func (g *Group) lock() (bool, error) {
	err := unix.Flock(g.FD(), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Kill sends SIGKILL to every process in the group and in groups below it, including those
// that are started meanwhile.
func (g *Group) Kill() error {
	err := os.WriteFile(g.file("cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil // it is gone
	}
	return err
}

// KillBelow kills all processes in the groups below the one in a folder, and none of its own.
func KillBelow(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		e := os.WriteFile(filepath.Join(dir, entry.Name(), "cgroup.kill"), []byte("1"), 0)
		if e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, unix.ENODEV) {
			err = errors.Join(err, fmt.Errorf("kill group %s: %w", entry.Name(), e))
		}
	}
	return err
}

// Alive reports whether a process other than a zombie is in the group or in one below it.
func (g *Group) Alive() (bool, error) {
	events, err := os.ReadFile(g.file("cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	return strings.Contains(string(events), "populated 1"), err
}

// Remove removes the group, which must have no live processes, and those below it.
func (g *Group) Remove() error {
	defer g.folder.Close()
	var dirs []string
	err := filepath.WalkDir(g.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, dir := range slices.Backward(dirs) {
		if e := unix.Rmdir(dir); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove group %s: %w", dir, e))
		}
	}
	return err
}

// End kills the processes of the group until none is alive, and removes it. It fails if one
// is still alive after a time. A folder that cannot be removed is no error.
func (g *Group) End(within time.Duration) error {
	end, pause := time.Now().Add(within), pauseMin
	for {
		err := g.Kill()
		if alive, e := g.Alive(); e == nil && !alive {
			_ = g.Remove()
			return nil
		}
		if time.Now().After(end) {
			err = cmp.Or(err, errors.New("a process cannot be killed"))
			return errors.Join(fmt.Errorf("end group %s within %s: %w", g.Dir(), within, err), g.folder.Close())
		}
		time.Sleep(pause)
		pause = min(2*pause, pauseMax)
	}
}

// Sweep ends every group of Make that no process holds, as far as this process may. The
// error names the groups that could not be ended in time.
func Sweep(within time.Duration) error {
	own, m, err := ownFolder()
	if err != nil {
		return nil // there are none
	}
	var unheld []*Group
	_ = filepath.WalkDir(m.point, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // removed, or not readable
		}
		_, inside := below(own, path)
		if !entry.IsDir() || !made.MatchString(entry.Name()) || inside || unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK) != nil {
			return nil
		}
		if g, err := Open(path); err == nil {
			if ours, err := g.lock(); err == nil && ours {
				unheld = append(unheld, g)
				return fs.SkipDir
			}
			g.folder.Close()
		}
		return nil // a process in it may hold a group below it
	})
	for _, g := range unheld {
		err = errors.Join(err, g.End(within))
	}
	return err
}
