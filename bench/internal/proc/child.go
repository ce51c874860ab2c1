package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// lineBytesMax bounds a line that a process says.
const lineBytesMax = 8 << 20

// Self is this very program with other arguments.
func Self(args ...string) *exec.Cmd {
	path := "/proc/self/exe" // leads to this binary even after a build has replaced the file
	if runtime.GOOS != "linux" {
		path, _ = os.Executable() // without a path, starting it fails and says so
	}
	return &exec.Cmd{Path: path, Args: append([]string{"peers"}, args...)}
}

// Child is a process that this one has started.
type Child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	reader sync.WaitGroup
	over   chan struct{}
	err    error // to be read when over is closed
}

// Start starts a process. heard is called for each line that it says, by one
// goroutine, and must not wait for the process to end.
func Start(cmd *exec.Cmd, heard func(line []byte)) (*Child, error) {
	c := &Child{cmd: cmd, over: make(chan struct{})}
	var last tail
	cmd.Stderr = &last
	cmd.SysProcAttr = apart(cmd.SysProcAttr)
	out, err := cmd.StdoutPipe()
	if err == nil {
		c.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name(cmd), err)
	}
	c.reader.Go(func() {
		defer close(c.over)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, lineBytesMax)
		for lines.Scan() {
			heard(lines.Bytes())
		}
		if lines.Err() != nil {
			_ = cmd.Process.Kill() // it says what nobody can read; if it has ended that is as good
		}
		c.err = last.explain(name(cmd), errors.Join(lines.Err(), cmd.Wait()))
	})
	return c, nil
}

func name(cmd *exec.Cmd) string {
	return strings.Join(cmd.Args[:min(len(cmd.Args), 2)], " ")
}

// Pid is the process's ID.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done is closed when the process has ended and all that it said was heard.
func (c *Child) Done() <-chan struct{} { return c.over }

// Err says why the process ended, once Done is closed; nil if it ended in order.
func (c *Child) Err() error {
	select {
	case <-c.over:
		return c.err
	default:
		return nil
	}
}

// endMax bounds how long a process may take to end in order.
const endMax = 30 * time.Second

// Close has the process end in order, and waits for that.
func (c *Child) Close() error {
	_ = c.in.Close() // closed already is as good
	defer time.AfterFunc(endMax, func() { _ = c.cmd.Process.Kill() }).Stop()
	c.reader.Wait()
	return c.err
}

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

// explain adds the name of a process, and what it wrote last, to the error with
// which it ended.
func (t *tail) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return fmt.Errorf("%s: %w", name, err)
}
