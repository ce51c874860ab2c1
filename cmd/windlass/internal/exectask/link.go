package exectask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
)

// pingsMax is how many pings in a row may go unanswered. They are counted, not timed,
// because a frozen node sends none.
const pingsMax = 4

// link is the node's connection to one supervisor process. A lost link stays lost; a new
// process gets a new one.
type link struct {
	cfg       Config
	cmd       *exec.Cmd
	conn      *net.UnixConn
	out       *outbox
	group     *cgroup.Group // of all its runs, nil for none
	guard     *guard        // of the group
	ungrouped error         // why there is no group
	closing   chan struct{} // closed by finish
	gone      chan struct{} // closed when the process is reaped, all runs are answered and the group is gone
	sweep     func(session int, runs map[string]int) int

	mu         sync.Mutex
	waiting    map[string]*waiter // runs without an answer; nil once lost
	unanswered int                // pings since the last message
	left       int                // processes that have not been killed yet after the loss
	err        error              // why it was lost
}

// waiter is one Run that waits for its answer.
type waiter struct {
	run, task string
	grace     time.Duration
	pid       int
	logError  string       // why the log is incomplete, or empty
	logFailed func(error)  // as in Command, may be nil
	done      chan outcome // holds one
	samples   chan sample  // holds one; closed before done has the answer
}

// answer ends the wait.
func (w *waiter) answer(o outcome) {
	close(w.samples)
	w.done <- o
}

type outcome struct {
	result Result
	err    error
}

// spawn starts a supervisor process and waits for its hello.
func spawn(ctx context.Context, cfg Config) (*link, error) {
	program, err := ownProgram()
	if err != nil {
		return nil, fmt.Errorf("own program: %w", err)
	}
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer theirs.Close()
	l := &link{
		cfg: cfg, conn: conn, out: newOutbox(), waiting: map[string]*waiter{},
		closing: make(chan struct{}), gone: make(chan struct{}), sweep: sweep,
	}
	l.group, l.guard, l.ungrouped = group(cfg)
	cmd := exec.Command(program, cfg.Args...)
	cmd.Args[0] = os.Args[0] // what ps shows
	cmd.Env = append(inherit(nil), cfg.Env...)
	// If this node is itself a task, its supervisor stays one of its processes.
	if outer, ok := os.LookupEnv(markerName); ok {
		cmd.Env = append(cmd.Env, markerName+"="+outer)
	}
	cmd.Stderr = cfg.Stderr
	cmd.ExtraFiles = append([]*os.File{theirs}, cmp.Or(cfg.Stdio, new([3]*os.File))[:]...) // SocketFD, stdioFD
	if l.group != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, l.group.Folder(), l.guard.lifeline) // groupFD, lifelineFD
		cmd.Env = append(cmd.Env, groupName+"="+l.group.Dir())
		defer l.guard.lifeline.Close()
	}
	// A session of its own, so that no Ctrl-C and no signal to the node's group ends the
	// process that has to clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	l.cmd = cmd
	err = cmd.Start()
	theirs.Close() // or the stream would not end with the process
	if err == nil {
		if err = l.greet(ctx); err == nil {
			go l.serve()
			return l, nil
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	conn.Close()
	l.disband()
	return nil, fmt.Errorf("supervisor %q did not come up: %w", cfg.Args, err)
}

// group makes a group for a supervisor and starts its guard.
func group(cfg Config) (*cgroup.Group, *guard, error) {
	g, err := cgroup.Make()
	if err != nil {
		return nil, nil, err
	}
	guard, err := startGuard(g, cfg)
	if err != nil {
		return nil, nil, errors.Join(err, g.Remove())
	}
	return g, guard, nil
}

// disband ends all processes in the group and returns how many groups still have a live
// one, 0 or 1.
func (l *link) disband() int {
	if l.group == nil {
		return 0
	}
	if err := l.group.End(sweepMax); err != nil {
		return 1
	}
	_ = l.guard.cmd.Process.Kill() // in case it has left the group
	_ = l.guard.cmd.Wait()
	return 0
}

// spawnsMax bounds the attempts to start one supervisor.
const spawnsMax = 3

// spawnRetry calls spawn again if the process ended before its hello: it may have been
// killed, for example by a kernel out of memory.
func spawnRetry(ctx context.Context, cfg Config) (l *link, err error) {
	for range spawnsMax {
		l, err = spawn(ctx, cfg)
		if err == nil || ctx.Err() != nil || !(errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			break
		}
	}
	return l, err
}

// socketPair makes the connection; both ends are closed in children.
func socketPair() (*net.UnixConn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "supervisor")
	conn, err := socket(os.NewFile(uintptr(fds[0]), "supervisor"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// greet reads the hello.
func (l *link) greet(ctx context.Context) error {
	if err := l.conn.SetReadDeadline(time.Now().Add(StartMax)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	m, err := decode(l.conn)
	if !stop() {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if m.Kind != kindHello || m.Version != protocol {
		return fmt.Errorf("said %q version %d: this node speaks version %d", m.Kind, m.Version, protocol)
	}
	return l.conn.SetReadDeadline(time.Time{})
}

// serve runs the link until its process and all processes of its runs have ended.
func (l *link) serve() {
	var both sync.WaitGroup
	over := make(chan struct{})
	both.Go(func() {
		// After a failed write the reader sees the end of the stream.
		_ = l.out.drain(l.conn)
		_ = l.conn.CloseWrite()
	})
	both.Go(func() { l.watch(over) })

	err := l.receive()
	close(over)
	l.out.close()
	l.conn.Close()
	// It may only be frozen, or have sent nonsense.
	_ = l.cmd.Process.Kill()
	awaitEnd(l.cmd.Process.Pid)
	both.Wait()
	l.abandon(err)
	for l.disband() > 0 {
	}
	_ = l.cmd.Wait() // only now, as its process ID is also that of the session to sweep
	close(l.gone)
}

// receive reads until the stream ends.
func (l *link) receive() error {
	for {
		m, err := decode(l.conn)
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.unanswered = 0
		w := l.waiting[m.Run]
		switch {
		case w == nil || m.Kind == kindSample:
		case m.Kind == kindLog:
			w.logError = m.Text
		case m.Kind == kindStarted:
			w.pid = m.Pid
		default:
			delete(l.waiting, m.Run)
		}
		l.mu.Unlock()
		switch {
		case w == nil || m.Kind == kindStarted:
		case m.Kind == kindLog:
			if w.logFailed != nil {
				w.logFailed(errors.New(m.Text))
			}
		case m.Sample != nil:
			select {
			case w.samples <- *m.Sample:
			default: // nobody has taken the last one
			}
		case m.Exit != nil:
			w.answer(outcome{result: *m.Exit})
		default:
			w.answer(outcome{err: failed(m.Failure, m.Text)})
		}
	}
}

// watch pings while a run waits, and kills a process that has stopped answering. Its
// programs die with it, by their death signal.
func (l *link) watch(over <-chan struct{}) {
	ticker := time.NewTicker(l.cfg.Answer / pingsMax)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-l.closing:
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		needed := len(l.waiting) > 0
		l.unanswered++
		if !needed {
			l.unanswered = 0
		}
		silent := l.unanswered > pingsMax
		l.mu.Unlock()
		if silent {
			l.lose(fmt.Errorf("no answer to %d pings", pingsMax))
			return
		}
		if needed {
			l.out.put(message{Kind: kindPing})
		}
	}
}

// lose kills the process; serve does the rest.
func (l *link) lose(why error) {
	l.mu.Lock()
	if l.err == nil {
		l.err = why
	}
	l.mu.Unlock()
	_ = l.cmd.Process.Kill()
	l.conn.Close()
}

// abandon ends the runs of a process that has ended: first their processes, then their
// callers' wait. It never gives up, since no run is over while a process of it is known to
// live.
func (l *link) abandon(cause error) {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	if l.err == nil {
		l.err = cause
	}
	why := l.err
	l.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	pids := make(map[string]int, len(waiting))
	for id, w := range waiting {
		pids[id] = w.pid
	}
	for left := 1; left > 0; {
		left = l.disband() + l.sweep(l.cmd.Process.Pid, pids)
		l.mu.Lock()
		l.left = left
		l.mu.Unlock()
	}
	if l.cfg.Lost != nil {
		var tasks []string
		for _, w := range waiting {
			tasks = append(tasks, w.task)
		}
		l.cfg.Lost(tasks)
	}
	for _, w := range waiting {
		w.answer(outcome{err: fmt.Errorf("%w: %w", ErrSupervisorLost, why)})
	}
}

func (l *link) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting == nil || l.err != nil
}

// logError returns why the log of a task's command that runs is incomplete, or "".
func (s *Supervisor) logError(task string) string {
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l == nil {
		return ""
	}
	w := l.runOf(task)
	l.mu.Lock()
	defer l.mu.Unlock()
	if w == nil {
		return ""
	}
	return w.logError
}

// begin sends the start order for a run of a command; false means that the link is lost.
func (l *link) begin(run string, c Command, order *startOrder) (*waiter, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil || l.err != nil {
		return nil, false
	}
	w := &waiter{run: run, task: c.Task, grace: order.Grace, logFailed: c.LogFailed, done: make(chan outcome, 1), samples: make(chan sample, 1)}
	l.waiting[run] = w
	l.out.put(message{Kind: kindStart, Run: run, Start: order})
	return w, true
}

// await returns the answer of the supervisor, or of abandon after it was lost.
func (l *link) await(ctx context.Context, w *waiter) (Result, error) {
	select {
	case o := <-w.done:
		return o.result, o.err
	case <-ctx.Done():
	}
	l.out.put(message{Kind: kindStop, Run: w.run, Grace: w.grace})
	o := <-w.done
	if o.err != nil {
		return o.result, errors.Join(o.err, context.Cause(ctx))
	}
	return o.result, nil
}

// pid is the ID of the process, zero once it is gone.
func (l *link) pid() int {
	select {
	case <-l.gone:
		return 0
	default:
		return l.cmd.Process.Pid
	}
}

// finish closes the stream and waits until the process has ended its runs and itself. It
// kills a process that takes longer than the longest grace.
func (l *link) finish() error {
	close(l.closing)
	bound := l.cfg.Answer
	l.mu.Lock()
	for _, w := range l.waiting {
		bound = max(bound, l.cfg.Answer+w.grace)
	}
	l.mu.Unlock()
	l.out.close()
	if l.goneWithin(bound) {
		return nil
	}
	l.lose(fmt.Errorf("did not end within %s", bound))
	if l.goneWithin(3 * sweepMax) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%w: %d processes could not be killed", ErrSupervisorLost, l.left)
}

func (l *link) goneWithin(d time.Duration) bool {
	select {
	case <-l.gone:
		return true
	case <-time.After(d):
		return false
	}
}
