package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/windlass-go/windlass/internal/stored"
)

// Limits of a file of JSON objects.
const (
	objectBytesMax = 1 << 20
	objectsMax     = 1_000_000
)

// byteOrderMark is what some editors write at the beginning of a file in UTF-8.
const byteOrderMark = "\xEF\xBB\xBF"

var errNoUTF8 = errors.New("it is not valid UTF-8")

// openFile opens a file, or standard input for -.
func (a *app) openFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	return os.Open(name)
}

// readObjects passes each JSON object of a file to take. They follow each other, usually one
// on a line, or are the elements of an array. The first error ends it and names its line;
// done is the participle of what was not done with any object.
func (a *app) readObjects(name, done string, take func(line int, content []byte) error) error {
	in, err := a.openFile(name)
	if err != nil {
		return usageError{err}
	}
	defer in.Close() // it was only read
	content := bufio.NewReader(in)
	if mark, _ := content.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = content.Discard(len(byteOrderMark)) // some editors begin a file with it
	}
	r := &objectReader{in: content}
	r.Decoder = json.NewDecoder(r)
	r.begin()
	for taken := 0; ; taken++ {
		object, line, err := r.next()
		switch {
		case err == io.EOF:
			return nil
		case err == nil && taken == objectsMax:
			err = fmt.Errorf("the file has more than %d objects", objectsMax)
		case err == nil:
			err = take(line, object)
		}
		if err != nil {
			return usagef("%s:%d: %w; nothing was %s", name, line, err, done)
		}
	}
}

// objectReader reads JSON objects and knows on which lines they are.
type objectReader struct {
	*json.Decoder
	in io.Reader
	// read counts the bytes that were read, and lines those of their line ends that come
	// after line; limit is how many bytes may be read.
	read, limit int64
	lines       []int64
	line        int
	// array is set within an array.
	array bool
}

// Read implements io.Reader for the decoder.
func (r *objectReader) Read(p []byte) (int, error) {
	if r.read > r.limit {
		return 0, fmt.Errorf("an object may have %d bytes", objectBytesMax)
	}
	n, err := r.in.Read(p)
	for i, c := range p[:n] {
		if c == '\n' {
			r.lines = append(r.lines, r.read+int64(i))
		}
	}
	r.read += int64(n)
	return n, err
}

// lineAt returns the number of the line at an offset that is not before the last one.
func (r *objectReader) lineAt(offset int64) int {
	passed, _ := slices.BinarySearch(r.lines, offset)
	r.lines = r.lines[passed:]
	r.line += passed
	return r.line + 1
}

// begin finds out whether the objects are in an array.
func (r *objectReader) begin() {
	r.limit = 2 * objectBytesMax // the decoder reads ahead
	r.More()
	if _, first := r.ahead(); first == '[' {
		_, _ = r.Token() // it is the bracket
		r.array = true
	}
}

// ahead returns the number of blanks before the next value, and its first byte.
func (r *objectReader) ahead() (blanks int64, first byte) {
	rest := bufio.NewReader(r.Buffered())
	for {
		c, err := rest.ReadByte()
		if err != nil || !bytes.ContainsRune([]byte(" \t\r\n,"), rune(c)) {
			return blanks, c
		}
		blanks++
	}
}

// next returns the next object and its line, and io.EOF after the last.
func (r *objectReader) next() (object json.RawMessage, line int, err error) {
	r.limit = r.InputOffset() + 2*objectBytesMax
	if r.array && !r.More() {
		if _, err = r.Token(); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		r.array = false
	}
	if err == nil {
		err = r.Decode(&object)
	}
	if err == io.EOF {
		return nil, 0, err
	}
	if err != nil {
		blanks, _ := r.ahead()
		return nil, r.lineAt(r.InputOffset() + blanks), err
	}
	line = r.lineAt(r.InputOffset() - int64(len(object)))
	if len(object) > objectBytesMax {
		err = fmt.Errorf("an object may have %d bytes", objectBytesMax)
	}
	return object, line, err
}

// decodeStrictly reads one JSON object, with no other fields than those of v, and each once,
// as in all that is in it.
func decodeStrictly(object []byte, v any) error {
	if !utf8.Valid(object) {
		return errNoUTF8 // the decoder would put other characters in its place
	}
	if fault := stored.Check(object, v, stored.Bounds{}); fault != nil {
		return fault
	}
	return stored.Decode(object, v)
}
