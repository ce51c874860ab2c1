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

// Tail writes the last lines of a task's log in dir to w, all that is kept if lines is
// negative. The error is fs.ErrNotExist when this node never ran the task. With follow it
// writes what is added, across rotations and before the first run, and returns nil when
// ctx ends.
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
	for {
		if current, err = catchUp(w, path, current); err != nil {
			return err
		}
		if !pause.For(ctx, followEvery) {
			_, err = catchUp(w, path, current) // what was added while it paused
			return err
		}
	}
}

// LastLines returns the last n lines of a text, all of them if n is negative.
func LastLines(text string, n int) string { return string(cutLines([]byte(text), n)) }

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

// catchUp writes what was added to f, and then the file at path if that is another. It
// returns the file read last.
func catchUp(w io.Writer, path string, f *os.File) (*os.File, error) {
	for {
		// Stat comes before the read: once the path names another file, nothing is added
		// to f any more.
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
