package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/windlass-go/windlass"
)

// Limits of what commands write through this process.
const (
	// relayBytesMax is the size of the queue from which on a command waits.
	relayBytesMax = 64 << 10
	// flushMax bounds the writing of the queue after an interrupt.
	flushMax = time.Second
	// drainMax and drainBytesMax bound what is read once all processes of a command
	// have ended: another process may have the pipe open. Only root can make a pipe
	// hold more than that.
	drainMax      = 5 * time.Second
	drainBytesMax = 1 << 20
)

// streams are the standard input, output and error of a command. A stream goes through
// a pipe if ours is no file, or if it has to be kept.
type streams struct {
	files [3]*os.File
	// theirs are the command's ends of the pipes, ours the other ends.
	theirs, ours []*os.File
	// over is closed when all processes of the command have ended.
	over    chan struct{}
	copying sync.WaitGroup
	output  keptOutput
}

// openStreams opens the standard output and error of a command; feed or take opens the
// input.
func (c *supervised) openStreams(keep bool) (*streams, error) {
	s := &streams{over: make(chan struct{}), output: keptOutput{max: windlass.ResultBytesMax}}
	for i, to := range []*relay{c.out, c.err} {
		kept := &s.output
		if i != 0 || !keep {
			kept = nil
		}
		if f, ok := to.to.(*os.File); ok && kept == nil {
			s.files[1+i] = f
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		s.files[1+i], s.theirs, s.ours = write, append(s.theirs, write), append(s.ours, read)
		s.copying.Go(func() {
			defer read.Close()
			err := s.copy(to, kept, read)
			if kept != nil {
				kept.whole = err == nil
			}
		})
	}
	return s, nil
}

// feed makes some bytes the standard input.
func (s *streams) feed(data []byte) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files[0], s.theirs, s.ours = read, append(s.theirs, read), append(s.ours, write)
	s.copying.Go(func() {
		defer write.Close()
		_, _ = write.Write(data) // a command need not read it
	})
	return nil
}

// take makes this process's standard input the command's, unless that is a terminal,
// which a command in a session of its own cannot read from.
func (s *streams) take(in io.Reader) error {
	if f, ok := in.(*os.File); ok && !isTerminal(f) {
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

// copy passes on what it reads, and keeps it unless kept is nil. It does not wait for the
// reader of that once the command is over.
func (s *streams) copy(to *relay, kept *keptOutput, from io.Reader) error {
	buffer := make([]byte, 32<<10)
	for left := drainBytesMax; left > 0; {
		n, err := from.Read(buffer)
		if kept != nil {
			kept.add(buffer[:n])
		}
		to.put(buffer[:n])
		select {
		case <-to.room():
		case <-s.over:
			left -= n
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return fmt.Errorf("more than %d bytes came after the end", drainBytesMax)
}

// close is called when the command has ended, and returns when the pipes have been read
// to their ends.
func (s *streams) close() {
	close(s.over)
	for _, f := range s.theirs {
		_ = f.Close() // an error of a pipe says nothing
	}
	for _, f := range s.ours {
		_ = f.SetDeadline(time.Now().Add(drainMax)) // fails if it is closed already
	}
	s.copying.Wait()
}

// relay passes the output of commands on to a reader that may be slow, or stuck.
//
// Invariant: while something is queued or being written, idle is open and one goroutine
// writes. It ends when all is written; a stuck write ends with the process.
type relay struct {
	to io.Writer
	// failed gets the first error; all output after it is dropped.
	failed func(error)
	// free is always closed.
	free chan struct{}

	mu     sync.Mutex
	queue  []byte
	idle   chan struct{}
	broken bool
}

func (a *app) newRelay(name string, to io.Writer) *relay {
	free := make(chan struct{})
	close(free)
	r := &relay{to: to, free: free, idle: free}
	r.failed = func(err error) {
		fmt.Fprintf(a.err, "windlass: %s takes no more of what commands write: %v\n", name, err)
	}
	return r
}

// put queues a copy of some bytes. It does not wait; see room.
func (r *relay) put(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(p) == 0 || r.broken {
		return
	}
	r.queue = append(r.queue, p...)
	select {
	case <-r.idle:
		r.idle = make(chan struct{})
		go r.write()
	default: // write will find it
	}
}

// write writes until the queue is empty.
func (r *relay) write() {
	for {
		r.mu.Lock()
		p := r.queue
		r.queue = nil
		if len(p) == 0 {
			close(r.idle)
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		if _, err := r.to.Write(p); err != nil {
			r.failed(err)
			r.mu.Lock()
			r.broken, r.queue = true, nil
			r.mu.Unlock()
		}
	}
}

// room returns a channel that is closed once more may be put.
func (r *relay) room() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) >= relayBytesMax {
		return r.idle
	}
	return r.free
}

// flush returns when all is written or, with the error of ctx, flushMax after its end.
func (r *relay) flush(ctx context.Context) error {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-idle:
		return nil
	case <-time.After(flushMax):
		return ctx.Err()
	}
}

// keptOutput keeps what is written, up to max bytes.
type keptOutput struct {
	max  int
	kept []byte
	// truncated is set if there was more, whole if the end was read.
	truncated, whole bool
}

func (k *keptOutput) add(p []byte) {
	n := min(len(p), k.max-len(k.kept))
	k.kept, k.truncated = append(k.kept, p[:n]...), k.truncated || n < len(p)
}

// json returns what was written if that is JSON, and complete: a part may be JSON, too.
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
