package exectask

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"
)

// LogEnd says where in a task's log some output ends, so that who looks again can tell what
// is new. The log is two files, since it is rotated.
type LogEnd struct {
	// File identifies the file that is written to, and Bytes is its length. Empty and 0 if
	// there is none.
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// Rotated and RotatedBytes are the same of the file that was written to before.
	Rotated      string `json:"rotated,omitempty"`
	RotatedBytes int64  `json:"rotated_bytes,omitempty"`
}

// Since returns how many bytes have been written since another look at the log; ok is false
// if that is not known, as after two rotations, or on another host. It is below zero if the
// other look was the later one.
func (e LogEnd) Since(other LogEnd) (n int64, ok bool) {
	switch {
	case e.File == other.File:
		return e.Bytes - other.Bytes, true
	case other.File == e.Rotated:
		return e.RotatedBytes - other.Bytes + e.Bytes, true
	case other.Rotated == e.File && e.File != "":
		return e.Bytes - other.RotatedBytes - other.Bytes, true
	}
	return 0, false
}

// logPart is the end of a log: text, whether there is more of the log before it, and where
// it ends.
type logPart struct {
	text []byte
	cut  bool
	end  LogEnd
}

// LogEndOf returns where a task's log in dir ends now.
func LogEndOf(dir, taskID string) (LogEnd, error) {
	p, err := logEnd(dir, taskID, 0)
	return p.end, err
}

// logEnd returns the last bytes of a task's log in dir. A file that is not there, as in the
// middle of a rotation, is as an empty one, and so is a log if dir is empty.
func logEnd(dir, taskID string, most int) (logPart, error) {
	if dir == "" {
		return logPart{}, nil
	}
	path := LogPath(dir, taskID)
	now, err := endOf(path, most)
	if err != nil {
		return logPart{}, err
	}
	old, err := endOf(path+oldSuffix, most-int(min(int64(most), now.end.Bytes)))
	switch {
	case err != nil, old.end.File == now.end.File: // it was rotated between the two
		return now, err
	case now.end.File == "":
		return old, nil
	}
	now.end.Rotated, now.end.RotatedBytes = old.end.File, old.end.Bytes
	return logPart{text: append(old.text, now.text...), cut: old.cut || now.cut, end: now.end}, nil
}

// endOf returns the last bytes of a file, nothing if it is not there.
func endOf(name string, most int) (logPart, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return logPart{}, nil
	}
	if err != nil {
		return logPart{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return logPart{}, err
	}
	head := make([]byte, headMax)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return logPart{}, err
	}
	from := max(0, info.Size()-int64(most))
	begin := max(0, from-headMax)
	text, err := io.ReadAll(io.NewSectionReader(f, begin, info.Size()-begin))
	end := LogEnd{File: fileID(head[:n]), Bytes: begin + int64(len(text))}
	text = text[min(afterHeader(text, begin, int(from-begin)), len(text)):]
	return logPart{text: text, cut: from > 0, end: end}, err
}

// headMax is more than a header is long.
const headMax = 4 << 10

// fileID tells the files of logs apart by their first headers, of which none is like another.
// Their inodes would not do: a new file often gets the one of the file just removed.
func fileID(head []byte) string {
	line, _, ok := bytes.Cut(bytes.TrimPrefix(head, []byte("\n")), []byte("\n"))
	if !ok {
		return "" // it is about to be written
	}
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:8])
}

// whole leaves out what may be the beginning of a character whose rest is still to be
// written.
func (p logPart) whole() logPart {
	for n := 1; n < utf8.UTFMax && n <= len(p.text) && int64(n) <= p.end.Bytes; n++ {
		last := p.text[len(p.text)-n:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				p.text, p.end.Bytes = p.text[:len(p.text)-n], p.end.Bytes-int64(n)
			}
			break
		}
	}
	return p
}

// readable returns a text in UTF-8 in which each byte that is part of no character is a
// question mark: it has the length that it had, by which LogEnd counts.
func readable(text []byte) string {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			out = append(out, '?')
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return string(out)
}
