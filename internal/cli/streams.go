package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/windlass-go/windlass"
)

// drainMax is how long what a command has written is still read and passed on once all of its
// processes have ended. It is in the pipe then; if the pipe does not end there, somebody else
// has it open, and if it cannot be passed on, nobody reads it.
const drainMax = 5 * time.Second

// streams are the standard input, output and error of a command: those of this process, and
// pipes for what is no file here, or has to be kept.
type streams struct {
	files [3]*os.File
	// theirs are those among the files that are to be closed here, ours the ends from which
	// is read.
	theirs, ours []*os.File
	// copies counts those that copy; each says when it is done, with what it has kept.
	copies int
	copied chan *keptOutput
	output keptOutput
}

// openStreams opens the standard output and error of a command; the input is for
// feed or take.
func (c *supervised) openStreams(keep bool) (*streams, error) {
	s := &streams{copied: make(chan *keptOutput, 3)}
	for i, to := range []io.Writer{c.out, c.err} {
		var kept *keptOutput
		if keep && i == 0 {
			kept = &keptOutput{max: windlass.ResultBytesMax}
		} else if f, ok := to.(*os.File); ok {
			s.files[1+i] = f
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		s.files[1+i], s.theirs, s.ours = write, append(s.theirs, write), append(s.ours, read)
		s.copy(func() {
			defer read.Close()
			if kept == nil {
				_, _ = io.Copy(to, read) // a command whose output nobody takes hears of it
				return
			}
			_, err := io.Copy(io.MultiWriter(kept, to), read)
			kept.whole = err == nil
		}, kept)
	}
	return s, nil
}

// feed makes some bytes the standard input.
func (s *streams) feed(data []byte) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files[0], s.theirs = read, append(s.theirs, read)
	s.copy(func() {
		defer write.Close()
		_, _ = write.Write(data) // a command need not read it
	}, nil)
	return nil
}

// take makes this process's standard input the command's, unless that is a terminal,
// which a command in a session of its own cannot read from.
func (s *streams) take(in io.Reader) error {
	if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		s.files[0] = f
		return nil
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	s.files[0], s.theirs = null, append(s.theirs, null)
	return nil
}

// copy has something copied, and kept that way.
func (s *streams) copy(do func(), kept *keptOutput) {
	s.copies++
	go func() {
		do()
		s.copied <- kept
	}()
}

// close is called when nobody else has the pipes open any more, and returns when all
// that was in them has been passed on, or that takes too long.
func (s *streams) close() {
	for _, f := range s.theirs {
		_ = f.Close() // of a pipe, which has nothing left to say
	}
	for _, f := range s.ours {
		_ = f.SetDeadline(time.Now().Add(drainMax)) // fails if it is closed already
	}
	enough := time.After(drainMax + time.Second)
	for range s.copies {
		select {
		case kept := <-s.copied:
			if kept != nil {
				s.output = *kept
			}
		case <-enough:
			return
		}
	}
}

// keptOutput keeps what is written, up to max bytes.
type keptOutput struct {
	max  int
	kept []byte
	// truncated is set when there was more, whole when the end was seen.
	truncated, whole bool
}

// Write implements io.Writer. It never fails.
func (k *keptOutput) Write(p []byte) (int, error) {
	n := min(len(p), k.max-len(k.kept))
	k.kept, k.truncated = append(k.kept, p[:n]...), k.truncated || n < len(p)
	return len(p), nil
}

// json is what was written, if that is JSON as a whole: the beginning of something
// may well be JSON, too.
func (k *keptOutput) json() (json.RawMessage, error) {
	content := bytes.TrimSpace(k.kept)
	switch {
	case k.truncated:
		return nil, fmt.Errorf("it has more than %d bytes", k.max)
	case !k.whole:
		return nil, errors.New("it could not be read to its end")
	case !utf8.Valid(content):
		return nil, errNoUTF8
	case !json.Valid(content):
		return nil, errors.New("it is not JSON")
	}
	return json.RawMessage(content), nil
}
