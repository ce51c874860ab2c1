package exectask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/internal/pause"
)

const (
	// logsEvery is how often the folder of the logs is looked at.
	logsEvery = 5 * time.Minute
	// blockBytes is what a file takes at least.
	blockBytes = 4 << 10
	// lockAttempts and lockPause bound how long a run waits for a log that another
	// process has locked, a second.
	lockAttempts = 100
	lockPause    = 10 * time.Millisecond
)

// tendLogs keeps the folder of the logs within its bounds until ctx is done.
func (s *Supervisor) tendLogs(ctx context.Context) {
	for ctx.Err() == nil {
		if err := sweepLogs(ctx, s.cfg.LogDir, time.Now().Add(-s.cfg.LogAge), s.cfg.LogSpace); err != nil {
			fmt.Fprintf(s.cfg.Stderr, "windlass: logs that are to be removed: %v\n", err)
		}
		pause.For(ctx, logsEvery)
	}
}

// logEntry is a log file as the folder shows it.
type logEntry struct {
	path    string
	written time.Time
	bytes   int64
}

// sweepLogs removes the logs that were not written to since a time, and then the oldest
// until what is left takes no more than space, in bytes. A log that a run has open stays.
// Of many errors, as on a file system without locks, it returns the first.
func sweepLogs(ctx context.Context, dir string, since time.Time, space int64) error {
	logs, total, err := listLogs(dir)
	for _, l := range logs {
		if ctx.Err() != nil || total <= space && !l.written.Before(since) {
			break
		}
		removed, removeErr := removeLog(l.path)
		if removed {
			total -= l.bytes
		}
		err = cmp.Or(err, removeErr)
	}
	return err
}

// listLogs returns the log files in a folder, the one written to least lately first, and
// what they take.
func listLogs(dir string) (logs []logEntry, total int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasSuffix(strings.TrimSuffix(e.Name(), oldSuffix), logSuffix) || !e.Type().IsRegular() {
			continue
		}
		info, infoErr := e.Info()
		if infoErr != nil {
			continue // it is gone, or rotated, since the folder was read
		}
		l := logEntry{path: filepath.Join(dir, e.Name()), written: info.ModTime(), bytes: max(info.Size(), blockBytes)}
		logs, total = append(logs, l), total+l.bytes
	}
	slices.SortFunc(logs, func(a, b logEntry) int {
		return cmp.Or(a.written.Compare(b.written), strings.Compare(a.path, b.path))
	})
	return logs, total, err
}

// removeLog removes a log unless a run, of whatever node, has it open.
func removeLog(path string) (removed bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = lockLog(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil || !isAt(f, path) { // it may have been rotated before it was locked
		return false, err
	}
	err = os.Remove(path)
	return err == nil, err
}

// openLocked opens a log to append to it, with a lock that keeps it from being removed. The
// lock lasts until the file is closed.
func openLocked(path string) (*os.File, error) {
	for attempt := 1; ; attempt++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		// Where there are no locks, nothing is removed either.
		err = lockLog(f, syscall.LOCK_SH|syscall.LOCK_NB)
		locked := !errors.Is(err, syscall.EWOULDBLOCK)
		if locked && isAt(f, path) {
			return f, nil
		}
		f.Close()
		if !locked && attempt >= lockAttempts {
			return nil, fmt.Errorf("%s is locked by another process", path)
		}
		if !locked { // it is being removed, or whoever removes it is frozen
			time.Sleep(lockPause)
		}
	}
}

// isAt tells whether an open file is still the one of that name.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(opened, there)
}

func lockLog(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
