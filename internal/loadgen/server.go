package loadgen

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// ServeBroker is what the process of a broker does beside: it says that the broker
// is ready, in which data folder, tells what the process uses when asked, and
// returns when in ends.
func ServeBroker(in io.Reader, out io.Writer, dir string) {
	v := voice{out: json.NewEncoder(out)}
	v.say(said{Ready: dir})
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if lines.Text() == askReport {
			v.say(said{Answer: &answer{Usage: usageNow(false)}})
		}
	}
}

// Server is a process that calls ServeBroker. Its methods are for one goroutine.
type Server struct {
	process *process
	// Dir is the broker's data folder.
	Dir  string
	said chan said
	err  error // why it ended; to be read when process.over is closed
}

// StartServer starts such a process and waits until its broker is ready.
func StartServer(ctx context.Context, cmd *exec.Cmd) (*Server, error) {
	s := &Server{said: make(chan said, 1)}
	var err error
	// It ends by itself, or its data would stay behind.
	s.process, err = startProcess((*exec.Cmd).Start, cmd, false, func(line said) { s.said <- line }, func(err error) { s.err = err })
	if err != nil {
		return nil, err
	}
	line, err := s.hear(ctx)
	if err != nil {
		_ = s.Close() // how it ended is in err, if it ended by itself
		return nil, err
	}
	s.Dir = line.Ready
	return s, nil
}

// hear waits for the next line.
func (s *Server) hear(ctx context.Context) (said, error) {
	select {
	case line := <-s.said:
		return line, nil
	case <-s.process.over:
		return said{}, errors.Join(errors.New("the broker's process has ended"), s.err)
	case <-ctx.Done():
		return said{}, context.Cause(ctx)
	}
}

// Usage is what the broker's process has used.
func (s *Server) Usage(ctx context.Context) (Usage, error) {
	if err := s.process.ask(askReport); err != nil {
		return Usage{}, fmt.Errorf("ask the broker's process: %w", err)
	}
	line, err := s.hear(ctx)
	if err != nil {
		return Usage{}, err
	}
	if line.Answer == nil {
		return Usage{}, errors.New("the broker's process gave no answer")
	}
	return line.Answer.Usage, nil
}

// serverEndMax bounds how long a broker may take to end in order.
const serverEndMax = 30 * time.Second

// Close ends the broker in order, and waits for that.
func (s *Server) Close() error {
	s.process.finish()
	defer time.AfterFunc(serverEndMax, s.process.kill).Stop()
	for {
		select {
		case <-s.said: // an answer that nobody waited for any more
		case <-s.process.over:
			s.process.reader.Wait()
			return s.err
		}
	}
}
