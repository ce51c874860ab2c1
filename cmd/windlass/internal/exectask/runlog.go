package exectask

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// logRetry is the least time between two attempts to write to a log that fails.
	logRetry = 100 * time.Millisecond
	// logLook is how often it is looked whether the file is still at its path.
	logLook = time.Second
)

var (
	errLogLocked  = errors.New("is locked by another process")
	errLogRemoved = errors.New("the file was removed")
)

// gap is output that a log lacks, and why. Without a cause there is none.
type gap struct {
	bytes int64
	cause error
}

// add counts what is missing; the first cause stays.
func (g *gap) add(n int, cause error) {
	g.bytes, g.cause = g.bytes+int64(n), cmp.Or(g.cause, cause)
}

// runLog appends one run's output to a task's log. At max bytes the file becomes ".1",
// replacing an older one: a task's logs never take more than twice max, plus one write.
//
// When writing fails, later writes try again, and the header before the first output that is
// written says how much is missing. Waiting for room would stop the command instead.
//
// Invariants: size is the length of file, to which only this run appends, without the part of
// a header that torn tells of. open is whether its last line has no newline. No two files
// begin with the same header, by which fileID tells them apart.
type runLog struct {
	path   string
	max    int64
	header string
	// put appends to the file: (*os.File).Write, but for tests.
	put func(*os.File, []byte) (int, error)

	file *os.File // nil if it is to be opened
	size int64
	open bool
	// torn is whether part of a header follows size.
	torn bool
	// due is whether a header is to be written before output, and fresh whether it will be
	// this run's first one in the file. files counts the files that have one.
	due, fresh bool
	files      int
	// own is how much of the file is output of this run, for the case that it is removed.
	own    int
	looked time.Time

	// gap is what is missing before the next output, retryAt when writing is tried again if
	// there is a gap.
	gap     gap
	retryAt time.Time
	// lacks is all that is missing of this run, unclosed the error of a file that may lack
	// some of what was written.
	lacks    gap
	unclosed error
}

// newRunLog returns the log of a run. before is what is missing at the end of the log.
func newRunLog(path string, max int64, header string, before gap) *runLog {
	return &runLog{path: path, max: max, header: header, put: (*os.File).Write, due: true, gap: before}
}

// begin opens the file and writes the header. If that fails, write tries again.
func (l *runLog) begin() error {
	err := l.attach()
	if err == nil {
		err = l.head()
	}
	if err != nil {
		l.miss(0, err)
	}
	return err
}

// write appends p, rotating first if p does not fit. It returns why not all of p was written,
// which it counts as missing.
func (l *runLog) write(p []byte) error {
	if l.gap.cause != nil && time.Now().Before(l.retryAt) {
		l.miss(len(p), nil)
		return l.gap.cause
	}
	n, err := l.append(p)
	if err != nil {
		l.miss(len(p)-n, err)
		l.retryAt = time.Now().Add(logRetry)
	}
	return err
}

// miss counts output that is missing.
func (l *runLog) miss(n int, cause error) {
	l.gap.add(n, cause)
	l.lacks.add(n, cmp.Or(cause, l.gap.cause)) // the gap may have begun in the run before
	l.due = true
}

// append writes p, and whatever is to stand before it. The line that a full file ends with
// goes on in it if its end is in p.
func (l *runLog) append(p []byte) (n int, err error) {
	if err := l.attach(); err != nil {
		return 0, err
	}
	if l.size+int64(len(p)) > l.max && l.size > 0 {
		if end := bytes.IndexByte(p, '\n') + 1; l.open && !l.due && end > 0 {
			if n, err = l.output(p[:end]); err != nil {
				return n, err
			}
		}
		// Before the header, or a file that cannot be rotated would grow by one with each try.
		if err := l.rotate(); err != nil {
			return n, err
		}
	}
	if err := l.head(); err != nil {
		return n, err
	}
	m, err := l.output(p[n:])
	return n + m, err
}

func (l *runLog) output(p []byte) (int, error) {
	n, err := l.put(l.file, p)
	if n > 0 {
		l.size, l.own, l.open = l.size+int64(n), l.own+n, p[n-1] != '\n'
	}
	return n, err
}

// attach opens the file unless it is open and still at its path, and leaves nothing torn.
func (l *runLog) attach() error {
	if l.file != nil && (l.gap.cause != nil || time.Since(l.looked) >= logLook) {
		if l.looked = time.Now(); !remains(l.file, l.path) {
			l.miss(l.own, errLogRemoved)
			l.file.Close() // its errors are those of a file that nobody can read any more
			l.file, l.open = nil, false
		}
	}
	if l.file == nil {
		if err := l.openFile(); err != nil {
			return err
		}
	}
	return l.mend()
}

// remains reports whether an open file has its path still, as far as that can be seen.
func remains(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, there) || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// openFile opens the file at the path, in a folder that it makes anew if it was removed.
func (l *runLog) openFile() error {
	attempts := lockAttempts
	if l.gap.cause != nil {
		attempts = 1 // the command has waited before
	}
	f, err := openLocked(l.path, attempts)
	if errors.Is(err, fs.ErrNotExist) && os.Mkdir(filepath.Dir(l.path), 0o700) == nil {
		f, err = openLocked(l.path, attempts)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	open := l.open // of the file before, whose last line then goes on in this one
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		_, err = f.ReadAt(last, info.Size()-1)
		open = last[0] != '\n'
	}
	if err != nil {
		f.Close()
		return err
	}
	l.file, l.size, l.open, l.own, l.torn = f, info.Size(), open, 0, false
	l.due, l.fresh, l.looked = true, true, time.Now()
	return nil
}

// rotate goes on in a new file. The old one is locked until it is renamed, so that nobody
// removes it before.
func (l *runLog) rotate() error {
	if err := os.Rename(l.path, l.path+oldSuffix); err != nil {
		return err
	}
	l.unclosed = cmp.Or(l.unclosed, l.file.Close())
	l.file = nil
	return l.openFile()
}

// head writes a header if one is due.
func (l *runLog) head() error {
	if !l.due {
		return nil
	}
	line := headerLine(l.header, l.note(), l.size, l.open)
	if n, err := l.put(l.file, line); err != nil {
		l.torn = n > 0
		return errors.Join(err, l.mend())
	}
	l.size, l.open = l.size+int64(len(line)), false
	if l.fresh {
		l.files++
	}
	if l.lacks.bytes == 0 {
		l.lacks = gap{} // it was only late
	}
	l.due, l.fresh, l.gap = false, false, gap{}
	return nil
}

// mend cuts off the part of a header that was written.
func (l *runLog) mend() error {
	if !l.torn {
		return nil
	}
	err := l.file.Truncate(l.size)
	l.torn = err != nil
	return err
}

// note is what the header says besides whose output follows.
func (l *runLog) note() string {
	var parts []string
	if l.fresh && l.files > 0 {
		parts = append(parts, fmt.Sprintf("continued %d", l.files))
	}
	if l.gap.bytes > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes before this line are missing: %s", l.gap.bytes, headerReason(l.gap.cause)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// close notes what is missing, if it can be written by now, and closes the file. It returns
// what is still to be noted.
func (l *runLog) close() gap {
	l.looked = time.Time{}
	err := l.attach()
	if err == nil {
		err = l.head()
	}
	if l.file != nil {
		l.unclosed = cmp.Or(l.unclosed, l.file.Close())
	}
	l.lacks.add(0, cmp.Or(err, l.unclosed))
	return l.gap
}
