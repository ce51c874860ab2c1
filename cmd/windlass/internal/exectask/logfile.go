package exectask

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Log files end in logSuffix, the rotated one in logSuffix+oldSuffix, so no
// task's ID can name another task's rotated log.
const (
	logSuffix = ".log"
	oldSuffix = ".1"
	// nameMax leaves room below the 255 bytes of a file name for the suffixes.
	nameMax = 200
)

// LogPath is where a task's output is kept in dir. Every task ID has a name of
// its own there: letters, digits, '-', '_' and inner dots stay, any other byte
// becomes %XX, and a long name ends in a hash of the ID instead of its rest.
// The previous file, if there is one, is the same path with ".1" after it.
func LogPath(dir, taskID string) string {
	const hex16 = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(taskID) {
		c := taskID[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex16[c>>4], hex16[c&15]})
		}
	}
	name := b.String()
	if len(name) > nameMax {
		sum := sha256.Sum256([]byte(taskID))
		// '~' never comes out of the loop above, so a cut name is nobody's whole name.
		name = name[:nameMax-33] + "~" + hex.EncodeToString(sum[:16])
	}
	if name == "" {
		name = "%"
	}
	return filepath.Join(dir, name+logSuffix)
}

// runLog appends one run's output to a task's log. At max bytes the file
// becomes ".1", in place of the older one, and a new one begins: a task's logs
// never take more than twice max, plus one write.
//
// Invariant: size is the length of file, which nobody else appends to while
// the run lives.
type runLog struct {
	path   string
	max    int64
	header string
	file   *os.File
	size   int64
}

func openLog(path string, max int64, header string) (*runLog, error) {
	l := &runLog{path: path, max: max, header: header}
	if err := l.open(header); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *runLog) open(header string) error {
	f, err := openLocked(l.path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size = f, info.Size()
	return l.append([]byte(header + "\n"))
}

func (l *runLog) append(p []byte) error {
	n, err := l.file.Write(p)
	l.size += int64(n)
	return err
}

// Write appends p, rotating first if p does not fit.
func (l *runLog) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > l.max && l.size > 0 {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	return len(p), l.append(p)
}

func (l *runLog) rotate() error {
	// The lock is held until the file has its other name: nobody removes it before.
	if err := errors.Join(os.Rename(l.path, l.path+oldSuffix), l.file.Close()); err != nil {
		return err
	}
	return l.open(l.header + " (continued)")
}

func (l *runLog) close() error { return l.file.Close() }

// prepareLogDir makes the folder that holds the logs, for its owner only, and
// refuses one that others may write to: they could put a link in place of a
// log.
func prepareLogDir(dir string) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return refuse("LogDir", quote(dir), "must be absolute")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("LogDir: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("LogDir: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return refuse("LogDir", quote(dir), fmt.Sprintf("must be a folder that only its owner writes to, mode is %s", info.Mode()))
	}
	// Only root gets this far in a folder of somebody else's.
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return refuse("LogDir", quote(dir), fmt.Sprintf("must be owned by user %d, its owner is %d", os.Geteuid(), stat.Uid))
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("LogDir: %w", err)
	}
	probe.Close()
	return os.Remove(probe.Name())
}
