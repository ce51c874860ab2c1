package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/windlass-go/windlass/internal/view"
)

// Limits of a file of JSON lines.
const (
	lineBytesMax = 1 << 20
	linesMax     = 1_000_000
)

var errNoUTF8 = errors.New("it is not valid UTF-8")

// openFile opens a file, or standard input for -.
func (a *app) openFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.in), nil
	}
	return os.Open(name)
}

// readLines passes each line of a file that is not empty to take. The first error ends it
// and names its line; done is the participle of what was not done with any line.
func (a *app) readLines(name, done string, take func(line int, content []byte) error) error {
	in, err := a.openFile(name)
	if err != nil {
		return usageError{err}
	}
	defer in.Close() // it was only read
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, lineBytesMax)
	line, taken := 0, 0
	for scanner.Scan() {
		line++
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		err := take(line, scanner.Bytes())
		if taken++; err == nil && taken > linesMax {
			err = fmt.Errorf("the file has more than %d lines", linesMax)
		}
		if err != nil {
			return usagef("%s:%d: %w; nothing was %s", name, line, err, done)
		}
	}
	if err := scanner.Err(); err != nil {
		return usagef("%s:%d: %w (a line may have %d bytes); nothing was %s", name, line+1, err, lineBytesMax, done)
	}
	return nil
}

// decodeStrictly reads one JSON object, with no other fields than those of v.
func decodeStrictly(line []byte, v any) error {
	if !utf8.Valid(line) {
		return errNoUTF8 // the decoder would put other characters in its place
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return view.DecodingError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON object on the line")
	}
	return nil
}
