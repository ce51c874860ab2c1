package exectask

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/windlass-go/windlass/internal/pause"
)

// followEvery is how often a followed log is read. A watch would not work on every file
// system.
const followEvery = 200 * time.Millisecond

// TailConfig says what Tail writes.
type TailConfig struct {
	// Lines is how many lines it begins with, below zero all that are kept.
	Lines int
	// Follow goes on with what is added, across rotations and before the first run.
	Follow bool
	// Printed leaves out the headers, so that only what the commands have printed is left.
	Printed bool
}

// Tail writes the last lines of a task's log in dir to w. The error is fs.ErrNotExist when
// this node never ran the task, unless the log is followed. Then it returns nil when ctx
// ends.
func Tail(ctx context.Context, w io.Writer, dir, taskID string, c TailConfig) (err error) {
	path := LogPath(dir, taskID)
	current, size, err := lastLines(w, path, c)
	if err != nil && (!c.Follow || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	follow := follower{out: w, path: path, file: current}
	if c.Printed {
		follow.printed = &headerFilter{out: w, offset: size}
	}
	defer func() { err = errors.Join(err, follow.close()) }()
	if !c.Follow {
		return nil
	}
	for {
		if err := follow.catchUp(); err != nil {
			return err
		}
		if !pause.For(ctx, followEvery) {
			return follow.catchUp() // what was added while it paused
		}
	}
}

// LastLines returns the last n lines of a text, all of them if n is negative.
func LastLines(text string, n int) string { return string(cutLines([]byte(text), n)) }

// lastLines writes the last lines of both files. It returns the current one, read to the
// end, and its size.
func lastLines(w io.Writer, path string, c TailConfig) (current *os.File, size int64, err error) {
	old, err := os.ReadFile(path + oldSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	f, err := os.Open(path)
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || old == nil) {
		return nil, 0, err
	}
	var now []byte
	if err == nil {
		now, err = io.ReadAll(f)
		size = int64(len(now))
	} else { // it is in the middle of a rotation
		f, err = nil, nil
	}
	if c.Printed {
		old, now = withoutHeaders(old, 0), withoutHeaders(now, 0)
	}
	if err == nil {
		_, err = w.Write(cutLines(append(old, now...), c.Lines))
	}
	if err != nil && f != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, err
}

// cutLines keeps the last n lines of text, all for n below zero. A last line
// without its newline counts as one.
func cutLines(text []byte, n int) []byte {
	if n < 0 {
		return text
	}
	if n == 0 {
		return nil
	}
	end := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; n > 0; n-- {
		end = bytes.LastIndexByte(text[:end], '\n')
		if end < 0 {
			return text
		}
	}
	return text[end+1:]
}

// follower writes what is added to the log at a path.
type follower struct {
	out     io.Writer
	path    string
	file    *os.File      // read to its end, nil for none
	printed *headerFilter // in front of out, nil for none
}

// close writes what is held, and closes the file.
func (f *follower) close() error {
	var err error
	if f.printed != nil {
		err = f.printed.flush()
	}
	if f.file != nil {
		f.file.Close()
	}
	return err
}

// catchUp writes what was added to the file, and then the file at the path if that is
// another.
func (f *follower) catchUp() error {
	for {
		// Stat comes before the read: once the path names another file, nothing is added
		// to the file any more.
		info, statErr := os.Stat(f.path)
		if f.file != nil {
			if err := f.read(); err != nil {
				return err
			}
			held, err := f.file.Stat()
			if err != nil || statErr != nil || os.SameFile(held, info) {
				return err
			}
			f.file.Close()
			f.file = nil
		}
		next, err := os.Open(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		f.file = next
		if f.printed != nil {
			if err := f.printed.begin(0); err != nil {
				return err
			}
		}
	}
}

// read writes the rest of the file.
func (f *follower) read() error {
	if f.printed == nil {
		_, err := io.Copy(f.out, f.file)
		return err
	}
	_, err := io.Copy(f.printed, f.file)
	return errors.Join(err, f.printed.settle())
}
