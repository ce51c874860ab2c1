package exectask

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// written makes a file that was last written to some time ago.
func written(t *testing.T, dir, name string, size int, ago time.Duration) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.WriteFile(path, make([]byte, size), 0o600))
	at := time.Now().Add(-ago)
	must(t, os.Chtimes(path, at, at))
}

func sweepFolder(t *testing.T, dir string, age time.Duration, space int64, left ...string) {
	t.Helper()
	must(t, sweepLogs(t.Context(), dir, time.Now().Add(-age), space))
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, left) {
		t.Errorf("left are %q, want %q", names, left)
	}
}

func TestLogsThatNobodyWritesToAreRemoved(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, "a.log", 10, 48*time.Hour)
	written(t, dir, "a.log.1", 10, 72*time.Hour)
	written(t, dir, "b.log", 10, time.Hour)
	written(t, dir, "b.log.1", 10, 48*time.Hour)
	written(t, dir, "log", 10, 48*time.Hour)
	written(t, dir, "mine.txt", 10, 48*time.Hour)
	must(t, os.Mkdir(filepath.Join(dir, "z.log"), 0o700))
	sweepFolder(t, dir, 24*time.Hour, LogSpaceDefault, "b.log", "log", "mine.txt", "z.log")
}

func TestTheOldestLogsMakeRoomForTheOthers(t *testing.T) {
	dir := t.TempDir()
	written(t, dir, "a.log", 10<<10, 3*time.Hour)
	written(t, dir, "b.log", 10<<10, time.Hour)
	written(t, dir, "c.log", 1, 2*time.Hour)
	sweepFolder(t, dir, 24*time.Hour, 24<<10, "a.log", "b.log", "c.log")
	sweepFolder(t, dir, 24*time.Hour, 23<<10, "b.log", "c.log")
	sweepFolder(t, dir, 24*time.Hour, 10<<10, "b.log")
}

// A command may be silent for longer than logs are kept.
func TestTheLogOfARunStays(t *testing.T) {
	dir := t.TempDir()
	l, err := openLog(LogPath(dir, "a"), LogMin, "---")
	must(t, err)
	old := time.Now().Add(-48 * time.Hour)
	must(t, os.Chtimes(l.path, old, old))
	sweepFolder(t, dir, 24*time.Hour, 0, "a.log")
	must(t, l.file.Close())
	sweepFolder(t, dir, 24*time.Hour, 0)
}

// Logs are removed while runs begin, rotate and end: each run writes to the file with the
// log's name.
func TestALogThatIsRemovedAsARunBeginsIsBegunAnew(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	swept := make(chan error)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = sweepLogs(context.Background(), dir, time.Now().Add(time.Hour), 0)
		}
		swept <- err
	}()
	for range 300 {
		l, err := openLog(LogPath(dir, "a"), LogMin, "---")
		must(t, err)
		for range 3 {
			must(t, l.write(make([]byte, LogMin/2)))
		}
		if !isAt(l.file, l.path) {
			t.Fatal("the log of a run was removed")
		}
		must(t, l.file.Close())
	}
	cancel()
	must(t, <-swept)
}

// A run goes on without its log if a process was frozen while it had the lock.
func TestALogThatAnotherProcessHasLockedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := LogPath(t.TempDir(), "a")
		f, err := os.Create(path)
		must(t, err)
		defer f.Close()
		must(t, lockLog(f, syscall.LOCK_EX))
		_, err = openLog(path, LogMin, "---")
		contains(t, err, path, "locked")
	})
}
