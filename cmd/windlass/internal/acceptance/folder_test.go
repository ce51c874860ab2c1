//go:build e2e && linux

package acceptance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// folderTasks is how many tasks run while the folder of the broker fails.
const folderTasks = 30

// loadedNodes starts a broker on its folder, and nodes that run tasks.
func loadedNodes(t *testing.T, f *fleet) {
	t.Helper()
	f.env = append(f.env, "WINDLASS_BROKER="+f.path("data"))
	f.startBroker()
	f.eventually(soon, func() string { return f.missingNodes(0) })
	f.startNode("n1")
	f.startNode("n2")
	f.eventually(soon, func() string { return f.missingNodes(2) })
	f.submit("t", folderTasks, forever)
	f.waitAllRun(folderTasks)
}

// smallDisk mounts a small file system, and unmounts it at the end of the test.
func smallDisk(t *testing.T, dir string, size int) {
	t.Helper()
	sweepDisks(t)
	must(t, os.Mkdir(dir, 0o700))
	// The source names the process, for sweepDisks.
	source := diskPrefix + strconv.Itoa(os.Getpid())
	if err := unix.Mount(source, dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0700", size)); err != nil {
		t.Skip("a small file system cannot be mounted here: ", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

const diskPrefix = "wl-disk-"

// sweepDisks unmounts what a killed test process has left behind.
func sweepDisks(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	must(t, err)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		rest, ours := strings.CutPrefix(fields[0], diskPrefix)
		if pid, err := strconv.Atoi(rest); ours && err == nil && syscall.Kill(pid, 0) != nil {
			t.Logf("unmounting %s of a run that is gone", fields[1])
			must(t, unix.Unmount(fields[1], unix.MNT_DETACH))
		}
	}
}

func TestBroker_M14_AFullDiskEndsItWithItsReasonAndSpaceBringsAllBack(t *testing.T) {
	f := fleetOf(newWorld(t))
	smallDisk(t, f.path("data"), 64<<20)
	loadedNodes(t, f)

	// All of the space, to the last byte.
	ballast, err := os.Create(f.path("data", "ballast"))
	must(t, err)
	if _, err := ballast.Write(make([]byte, 64<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
	must(t, ballast.Close())
	// Nodes at rest write nothing, so something is submitted. It has no answer,
	// or a late one.
	var big []any
	for i := range 50 {
		big = append(big, map[string]any{"id": fmt.Sprintf("big-%d", i), "type": "none", "props": strings.Repeat("x", 200<<10)})
	}
	file := f.writeLines("big.jsonl", big)
	var submitting sync.WaitGroup
	submitting.Go(func() { f.call("task", "submit", "-f", file) })
	defer submitting.Wait()
	filled := time.Now()
	ended := f.until(patience, "the broker ends", func() bool { return !f.broker.alive() })
	f.took("full disk until the broker has ended", filled, ended)
	text, err := os.ReadFile(f.broker.output)
	must(t, err)
	if code := f.broker.cmd.ProcessState.ExitCode(); code != exitFailed ||
		!bytes.Contains(text, []byte("no space left on device")) || bytes.Contains(text, []byte("goroutine ")) {
		t.Errorf("it ends with exit code %d and does not just say why:\n%s", code, tail(text))
	}
	f.goneInTime("end of the broker", ended, f.waitNone())
	f.noneExited()

	must(t, os.Remove(f.path("data", "ballast")))
	started := time.Now()
	f.startBroker()
	f.took("space and a start of the broker until all tasks run", started, f.waitAllRun(folderTasks))
	f.recovered(folderTasks)
}

func TestBroker_M14_AFolderThatIsTakenOrDamagedIsRefusedAndOneFromACopyServes(t *testing.T) {
	f := fleetOf(newWorld(t))
	loadedNodes(t, f)
	_, errs, code := f.call("dev", "--nodes", "0", "--data", f.path("data"))
	if want := fmt.Sprintf("in use by process %d", f.broker.cmd.Process.Pid); code != exitConflict || !strings.Contains(errs, want) {
		t.Errorf("a second broker on the folder: exit code %d, want %d and %q:\n%s", code, exitConflict, want, errs)
	}
	f.endsCleanly(f.broker)
	must(t, os.CopyFS(f.path("copy"), os.DirFS(f.path("data"))))
	for _, pattern := range []string{"*.wal", "db"} {
		damage(t, f.path("data", "etcd"), pattern)
		began := time.Now()
		_, errs, code := f.call("dev", "--nodes", "0", "--data", f.path("data"))
		f.took("a damaged "+pattern+" is refused", began, time.Now())
		if code != exitFailed || !strings.Contains(errs, f.path("data")) || strings.Contains(errs, "goroutine ") {
			t.Errorf("a damaged %s: exit code %d, want %d and an error that names the folder:\n%.1000s", pattern, code, exitFailed, errs)
		}
		must(t, os.RemoveAll(f.path("data")))
		must(t, os.CopyFS(f.path("data"), os.DirFS(f.path("copy"))))
		must(t, os.Chmod(f.path("data"), 0o700))
	}
	f.waitNone()
	f.noneExited()
	started := time.Now()
	f.startBroker()
	f.took("start of the broker from a copy until all tasks run", started, f.waitAllRun(folderTasks))
	f.recovered(folderTasks)
}

// damage overwrites the first half of each file that matches.
func damage(t *testing.T, root, pattern string) {
	t.Helper()
	found := 0
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if ok, err := filepath.Match(pattern, d.Name()); err != nil || !ok {
			return err
		}
		found++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copy(content, bytes.Repeat([]byte{0xa5}, len(content)/2))
		return os.WriteFile(path, content, 0)
	}))
	if found == 0 {
		t.Fatalf("there is no %s in %s", pattern, root)
	}
}
