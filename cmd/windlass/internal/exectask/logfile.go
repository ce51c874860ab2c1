package exectask

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Log files end in logSuffix and rotated ones in logSuffix+oldSuffix, so that no task's log
// has the name of another's rotated log.
const (
	logSuffix = ".log"
	oldSuffix = ".1"
	// nameMax leaves room for the suffixes: a file name has at most 255 bytes.
	nameMax = 200
)

// LogPath returns the path of a task's log in dir, different for every ID: letters, digits,
// '-', '_' and inner dots stay, any other byte becomes %XX, and a hash of the ID replaces
// the end of a long name. The rotated log has ".1" after it.
func LogPath(dir, taskID string) string {
	var b strings.Builder
	for i, c := range []byte(taskID) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := cmp.Or(b.String(), "%")
	if len(name) > nameMax {
		sum := sha256.Sum256([]byte(taskID))
		// No whole name has a '~'.
		name = name[:nameMax-33] + "~" + hex.EncodeToString(sum[:16])
	}
	return filepath.Join(dir, name+logSuffix)
}

// runLog appends one run's output to a task's log. At max bytes the file becomes ".1",
// replacing an older one: a task's logs never take more than twice max, plus one write.
//
// Invariants: size is the length of file, to which only this run appends. open is whether its
// last line has no newline. No two files begin with the same header, by which fileID tells
// them apart.
type runLog struct {
	path      string
	max       int64
	header    string
	rotations int
	file      *os.File
	size      int64
	open      bool
}

func openLog(path string, max int64, header string) (*runLog, error) {
	l := &runLog{path: path, max: max, header: header}
	return l, l.begin("")
}

// begin opens the file at path and writes the header to it, with a note.
func (l *runLog) begin(note string) error {
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
	if l.size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, l.size-1); err != nil {
			return err
		}
		l.open = last[0] != '\n'
	}
	return l.append(headerLine(l.header, note, l.size, l.open))
}

func (l *runLog) append(p []byte) error {
	n, err := l.file.Write(p)
	if n > 0 {
		l.size, l.open = l.size+int64(n), p[n-1] != '\n'
	}
	return err
}

// write appends p, rotating first if p does not fit. The line that the file ends with goes
// on in it if its end is in p.
func (l *runLog) write(p []byte) error {
	if l.size+int64(len(p)) > l.max && l.size > 0 {
		if n := bytes.IndexByte(p, '\n') + 1; l.open && n > 0 {
			if err := l.append(p[:n]); err != nil {
				return err
			}
			p = p[n:]
		}
		// It is locked until it is renamed, so that nobody removes it before.
		if err := errors.Join(os.Rename(l.path, l.path+oldSuffix), l.file.Close()); err != nil {
			return err
		}
		l.rotations++
		if err := l.begin(fmt.Sprintf(" (continued %d)", l.rotations)); err != nil {
			return err
		}
	}
	return l.append(p)
}

// prepareLogDir makes the folder of the logs. It refuses one that other users may write
// to: they could replace a log by a link.
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
	// Only root gets here with a folder of another user.
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
