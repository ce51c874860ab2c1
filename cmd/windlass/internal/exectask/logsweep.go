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
	// logsEvery is how often the folder of the logs is checked.
	logsEvery = 5 * time.Minute
	// blockBytes is the least size that a file counts as.
	blockBytes = 4 << 10
	// lockAttempts times lockPause, a second, is how long a run waits for a log that
	// another process has locked.
	lockAttempts = 100
	lockPause    = 10 * time.Millisecond
)

// tendLogs removes old logs until ctx is done.
func (s *Supervisor) tendLogs(ctx context.Context) {
	for ctx.Err() == nil {
		if err := sweepLogs(ctx, s.cfg.LogDir, time.Now().Add(-s.cfg.LogAge), s.cfg.LogSpace); err != nil {
			fmt.Fprintf(s.cfg.Stderr, "windlass: logs that are to be removed: %v\n", err)
		}
		pause.For(ctx, logsEvery)
	}
}

type logEntry struct {
	path    string
	written time.Time
	bytes   int64
}

// sweepLogs removes the logs that were last written before since, and then the oldest until
// the rest take at most space bytes. Logs that runs have open stay. It returns only the
// first error, since a file system without locks returns one for each log.
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

// listLogs returns the log files in a folder, oldest first, and their size in all.
func listLogs(dir string) (logs []logEntry, total int64, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasSuffix(strings.TrimSuffix(e.Name(), oldSuffix), logSuffix) || !e.Type().IsRegular() {
			continue
		}
		info, infoErr := e.Info()
		if infoErr != nil {
			continue // removed or rotated since the folder was read
		}
		l := logEntry{path: filepath.Join(dir, e.Name()), written: info.ModTime(), bytes: max(info.Size(), blockBytes)}
		logs, total = append(logs, l), total+l.bytes
	}
	slices.SortFunc(logs, func(a, b logEntry) int {
		return cmp.Or(a.written.Compare(b.written), strings.Compare(a.path, b.path))
	})
	return logs, total, err
}

// removeLog removes a log unless a run of any node has it open.
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

// openLocked opens a log to append to it, and locks it against removal until it is closed. A
// log that another process has locked is tried so many times.
func openLocked(path string, attempts int) (*os.File, error) {
	for attempt := 1; ; attempt++ {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		// On a file system without locks nothing is removed either.
		err = lockLog(f, syscall.LOCK_SH|syscall.LOCK_NB)
		locked := !errors.Is(err, syscall.EWOULDBLOCK)
		if locked && isAt(f, path) {
			return f, nil
		}
		f.Close()
		if !locked { // it is being removed, perhaps by a frozen process
			if attempt >= attempts {
				return nil, fmt.Errorf("%s %w", path, errLogLocked)
			}
			time.Sleep(lockPause)
		}
	}
}

// isAt reports whether an open file still has that name.
func isAt(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there)
}

func lockLog(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
