package exectask

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/windlass-go/windlass/internal/shorten"
)

// A header is a line of the log that Windlass writes: where a run begins, where a run goes on
// in a new file, and where output is missing. It starts on a line of its own, so that the files can be read as
// they are, and it says where in the file it stands. By that a reader knows it from output
// that looks like it, such as the printed log of another task, and can leave it out.
const (
	headerStart = "--- windlass "
	headerAt    = " at="
	// headerNewline ends a header before which a newline was added, as the output had none.
	headerNewline = " (newline added)"
)

// headerLine returns the bytes of a header at an offset of a log file. open is whether the
// line before it has no newline.
func headerLine(text, note string, offset int64, open bool) []byte {
	if !open {
		return fmt.Appendf(nil, "%s%s%d%s\n", text, headerAt, offset, note)
	}
	return fmt.Appendf(nil, "\n%s%s%d%s%s\n", text, headerAt, offset+1, note, headerNewline)
}

// headerReason returns why output is missing, for a note in a header: in one short line, and
// without what makes isHeader look for the offset there. Errors of files repeat the path.
func headerReason(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	} else if errors.Is(err, errLogLocked) {
		err = errLogLocked
	}
	return strings.ReplaceAll(shorten.Line(err.Error(), reasonBytesMax), strings.TrimSpace(headerAt), "at ")
}

// reasonBytesMax limits the reason in a header, which must be shorter than headMax in all.
const reasonBytesMax = 256

// isHeader reports whether a line at an offset of a log file is a header, and whether a
// newline was added before it.
func isHeader(line []byte, offset int64) (is, added bool) {
	text := string(line)
	text, added = strings.CutSuffix(text, headerNewline)
	at := strings.LastIndex(text, headerAt)
	if !strings.HasPrefix(text, headerStart) || at < 0 {
		return false, false
	}
	where, note, _ := strings.Cut(text[at+len(headerAt):], " ")
	return where == strconv.FormatInt(offset, 10) && (note == "" || note[0] == '('), added
}

// headerFilter passes on what commands have printed to a log, without the headers.
type headerFilter struct {
	out io.Writer
	// offset is where in the file the next byte that is written stands.
	offset int64
	// held are the last bytes that were written, which may be the beginning of a header.
	held []byte
	// grown is whether anything was written since settle.
	grown bool
}

// Write takes the next bytes of the file.
func (f *headerFilter) Write(p []byte) (int, error) {
	f.grown = f.grown || len(p) > 0
	begin := f.offset - int64(len(f.held))
	text := append(f.held, p...)
	f.offset += int64(len(p))
	var printed []byte
	for {
		i := bytes.Index(text, []byte(headerStart))
		if i < 0 {
			i = len(text) - partOfStart(text)
			printed, text = append(printed, text[:i]...), text[i:]
			break
		}
		// No further than a header is long, or output full of beginnings takes quadratic time.
		n := bytes.IndexByte(text[i:min(len(text), i+headMax)], '\n')
		if n < 0 && len(text)-i < headMax {
			if i > 0 && text[i-1] == '\n' {
				i--
			}
			printed, text = append(printed, text[:i]...), text[i:]
			break
		}
		next := i + len(headerStart)
		if n >= 0 {
			if is, added := isHeader(text[i:i+n], begin+int64(i)); is {
				if next = i + n + 1; added && i > 0 {
					i--
				}
				printed, text, begin = append(printed, text[:i]...), text[next:], begin+int64(next)
				continue
			}
		}
		printed, text, begin = append(printed, text[:next]...), text[next:], begin+int64(next)
	}
	f.held = bytes.Clone(text)
	if len(printed) > 0 {
		if _, err := f.out.Write(printed); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// partOfStart returns how many bytes at the end of a text may be the beginning of a header,
// and of the newline before it.
func partOfStart(text []byte) int {
	const start = "\n" + headerStart
	for n := min(len(start)-1, len(text)); n > 0; n-- {
		end := string(text[len(text)-n:])
		if strings.HasPrefix(start, end) || strings.HasPrefix(headerStart, end) {
			return n
		}
	}
	return 0
}

// settle passes on what is held if nothing was written since the last call: a header is
// written at once, so what has stood there for a while is output.
func (f *headerFilter) settle() error {
	if f.grown {
		f.grown = false
		return nil
	}
	return f.flush()
}

// flush passes on what is held.
func (f *headerFilter) flush() error {
	held := f.held
	f.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := f.out.Write(held)
	return err
}

// begin goes on at an offset of another file.
func (f *headerFilter) begin(offset int64) error {
	err := f.flush()
	f.offset = offset
	return err
}

// afterHeader returns where to cut a text that stands at an offset of a log file: at a place,
// or after the header that this would cut in two.
func afterHeader(text []byte, offset int64, place int) int {
	i := bytes.LastIndex(text[:min(place+len(headerStart)-1, len(text))], []byte(headerStart))
	if i < 0 || i >= place {
		return place
	}
	n := bytes.IndexByte(text[i:], '\n')
	if n < 0 {
		return place
	}
	if is, _ := isHeader(text[i:i+n], offset+int64(i)); is {
		return max(place, i+n+1)
	}
	return place
}

// withoutHeaders returns what commands have printed of a text that stands at an offset of a
// log file.
func withoutHeaders(text []byte, offset int64) []byte {
	var out bytes.Buffer
	f := headerFilter{out: &out, offset: offset}
	_, _ = f.Write(text) // a buffer takes everything
	_ = f.flush()
	return out.Bytes()
}

// Printed returns what commands have printed of a text at the end of the log, without the
// headers.
func (e LogEnd) Printed(text string) string {
	now := min(int64(len(text)), e.Bytes)
	before := text[:int64(len(text))-now]
	printed := withoutHeaders([]byte(before), e.RotatedBytes-int64(len(before)))
	return string(append(printed, withoutHeaders([]byte(text[len(before):]), e.Bytes-now)...))
}
