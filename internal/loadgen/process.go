package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// starter starts child processes from one thread that lives as long as itself:
// the kernel ties the signal that a child gets at its parent's death to the thread
// that started it.
type starter struct {
	orders  chan *exec.Cmd
	results chan error
	thread  sync.WaitGroup
}

func newStarter() *starter {
	s := &starter{orders: make(chan *exec.Cmd), results: make(chan error)}
	s.thread.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for cmd := range s.orders {
			s.results <- cmd.Start()
		}
	})
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	s.orders <- cmd
	return <-s.results
}

// close ends the thread, and with it every child that is mortal.
func (s *starter) close() {
	close(s.orders)
	s.thread.Wait()
}

// process is a child that talks over its standard streams.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	// over is closed when the child has ended and all that it said was heard.
	over   chan struct{}
	reader sync.WaitGroup
}

// startProcess starts a child. heard gets every line that it says and ended, once,
// why it ended; both are called by one goroutine and may wait for the caller of
// this process's methods, as long as that one does not wait for over.
func startProcess(start func(*exec.Cmd) error, cmd *exec.Cmd, mortal bool, heard func(said), ended func(error)) (*process, error) {
	p := &process{cmd: cmd, over: make(chan struct{})}
	var last tail
	cmd.Stderr = &last
	cmd.SysProcAttr = childAttr(mortal)
	out, err := cmd.StdoutPipe()
	if err == nil {
		p.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = start(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(cmd.Args, " "), err)
	}
	p.reader.Go(func() {
		defer close(p.over)
		lines := json.NewDecoder(out)
		for {
			var s said
			if err := lines.Decode(&s); err != nil {
				if !errors.Is(err, io.EOF) {
					_ = cmd.Process.Kill() // it talks nonsense; if it has ended that is as good
				}
				break
			}
			heard(s)
		}
		ended(last.explain(cmd.Wait()))
	})
	return p, nil
}

func (p *process) ask(request string) error {
	_, err := io.WriteString(p.in, request+"\n")
	return err
}

// finish tells the child to end in order.
func (p *process) finish() { _ = p.in.Close() }

// kill ends the child at once. One that has ended already is as good.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// tail keeps the end of what was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytesMax bounds it.
const tailBytesMax = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailBytesMax; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// explain adds what a child wrote last to the error with which it ended. What one
// wrote that ended well were warnings at most.
func (t *tail) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	if err == nil || text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}
