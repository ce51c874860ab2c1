package exectask

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// followEvery is how often a followed log is looked at. Polling works on every
// file system; a watch would not.
const followEvery = 200 * time.Millisecond

// multiFile is the rotated log followed by the current one.
type multiFile struct {
	io.Reader
	files []*os.File
}

// Close closes both.
func (m *multiFile) Close() error {
	var all error
	for _, f := range m.files {
		all = errors.Join(all, f.Close())
	}
	return all
}

// ReadLog opens all that is kept of a task's output in dir, oldest first. The
// error is fs.ErrNotExist when this node never ran the task.
func ReadLog(dir, taskID string) (io.ReadCloser, error) {
	path := LogPath(dir, taskID)
	m := &multiFile{}
	var readers []io.Reader
	for _, p := range []string{path + oldSuffix, path} {
		f, err := os.Open(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		m.files = append(m.files, f)
		readers = append(readers, f)
	}
	if len(readers) == 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	m.Reader = io.MultiReader(readers...)
	return m, nil
}

// Tail writes the last lines of a task's log in dir to w; lines below zero
// means all that is kept. With follow it goes on writing what is added, across
// rotations and before the first run, until ctx ends, and then returns nil.
func Tail(ctx context.Context, w io.Writer, dir, taskID string, lines int, follow bool) error {
	path := LogPath(dir, taskID)
	current, err := lastLines(w, path, lines)
	if err != nil && (!follow || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	defer func() {
		if current != nil {
			current.Close()
		}
	}()
	if !follow {
		return nil
	}
	poll := time.NewTicker(followEvery)
	defer poll.Stop()
	for {
		if current, err = catchUp(w, path, current); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
		}
	}
}

// lastLines writes the last lines of both files and returns the current one,
// read to the end.
func lastLines(w io.Writer, path string, lines int) (*os.File, error) {
	old, err := os.ReadFile(path + oldSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && old != nil {
		_, err = w.Write(cutLines(old, lines))
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	now, err := io.ReadAll(f)
	if err == nil {
		_, err = w.Write(cutLines(append(old, now...), lines))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
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

// catchUp writes what was added to the file it holds, and goes over to the new
// one when the path names another.
func catchUp(w io.Writer, path string, f *os.File) (*os.File, error) {
	for {
		// The path is looked at before the read: once it names another file,
		// nothing more is added to this one, so this read is its last.
		info, statErr := os.Stat(path)
		if f != nil {
			if _, err := io.Copy(w, f); err != nil {
				return f, err
			}
			held, err := f.Stat()
			if err != nil || statErr != nil || os.SameFile(held, info) {
				return f, err
			}
			f.Close()
		}
		next, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		f = next
	}
}
