package exectask

import (
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

// pingsMax is how many pings in a row may go unanswered. They are counted, not
// timed: a node that was itself frozen must not blame its supervisor for it.
const pingsMax = 4

// link is one supervisor process as the node sees it. It is lost once and for
// ever; a new process gets a new link.
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
	run   string
	grace time.Duration
	pid   int
	done  chan outcome // holds one
}

type outcome struct {
	result Result
	err    error
}

// spawn starts a supervisor process and waits for its hello.
func spawn(ctx context.Context, cfg Config) (*link, error) {
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	defer theirs.Close()
	program, err := ownProgram()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("own program: %w", err)
	}
	l := &link{
		cfg: cfg, conn: conn, out: newOutbox(), waiting: map[string]*waiter{},
		closing: make(chan struct{}), gone: make(chan struct{}), sweep: sweep,
	}
	l.group, l.guard, l.ungrouped = group(cfg)
	cmd := exec.Command(program, cfg.Args...)
	cmd.Args[0] = os.Args[0] // what ps shows
	cmd.Env = append(inherit(), cfg.Env...)
	// If this node is itself a task, its supervisor stays one of its processes.
	if outer, ok := os.LookupEnv(markerName); ok {
		cmd.Env = append(cmd.Env, markerName+"="+outer)
	}
	cmd.Stderr = cfg.Stderr
	cmd.ExtraFiles = []*os.File{theirs} // SocketFD
	if cfg.Stdio != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, cfg.Stdio[:]...) // stdioFD
	} else {
		cmd.ExtraFiles = append(cmd.ExtraFiles, nil, nil, nil)
	}
	if l.group != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, l.group.Folder(), l.guard.lifeline) // groupFD, lifelineFD
		cmd.Env = append(cmd.Env, groupName+"="+l.group.Dir())
		defer l.guard.lifeline.Close()
	}
	// A session of its own: what is sent to the node's group or terminal, a
	// Ctrl-C first of all, is not for the one that has to clean up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		conn.Close()
		l.disband()
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	l.cmd = cmd
	theirs.Close() // or its end would never be seen
	if err := l.greet(ctx); err != nil {
		conn.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		l.disband()
		return nil, fmt.Errorf("supervisor %q did not come up: %w", cfg.Args, err)
	}
	go l.serve()
	return l, nil
}

// group makes a group for a supervisor and starts its guard, or says why there is none.
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

// disband ends whatever is in the group, if there is one, and returns how many groups
// still have something that lives.
func (l *link) disband() int {
	if l.group == nil {
		return 0
	}
	if err := l.group.End(sweepMax); err != nil {
		return 1
	}
	_ = l.guard.cmd.Process.Kill() // if it is outside already
	_ = l.guard.cmd.Wait()
	return 0
}

// spawnsMax bounds the attempts to start one supervisor.
const spawnsMax = 3

// spawnStubbornly spawns again where the process ended before it said hello:
// somebody may have killed it, such as a kernel out of memory.
func spawnStubbornly(ctx context.Context, cfg Config) (l *link, err error) {
	for range spawnsMax {
		l, err = spawn(ctx, cfg)
		if err == nil || ctx.Err() != nil || !(errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			break
		}
	}
	return l, err
}

// socketPair makes the connection; neither end reaches a child by accident.
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

// serve is the life of a link: it ends when the process has, and leaves
// nothing behind.
func (l *link) serve() {
	var both sync.WaitGroup
	over := make(chan struct{})
	both.Go(func() {
		// A failed write shows as the end of the stream to the reader.
		_ = l.out.drain(l.conn)
		_ = l.conn.CloseWrite()
	})
	both.Go(func() { l.watch(over) })

	err := l.receive()
	close(over)
	l.out.close()
	l.conn.Close()
	// Whether it ended, froze or spoke nonsense, it shall not come back.
	_ = l.cmd.Process.Kill()
	awaitEnd(l.cmd.Process.Pid)
	both.Wait()
	l.abandon(err)
	for l.disband() > 0 {
	}
	_ = l.cmd.Wait() // only now may somebody else get its number, which is its session's
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
		if w != nil && m.Kind == kindStarted {
			w.pid = m.Pid
		} else if w != nil {
			delete(l.waiting, m.Run)
		}
		l.mu.Unlock()
		switch {
		case w == nil || m.Kind == kindStarted:
		case m.Exit != nil:
			w.done <- outcome{result: *m.Exit}
		default:
			w.done <- outcome{err: failed(m.Failure, m.Text)}
		}
	}
}

// watch pings while somebody waits, and kills a process that has stopped
// answering. Killing it kills its runs' programs, by their death signal.
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
		switch silent := l.countPing(); {
		case silent == 0:
		case silent <= pingsMax:
			l.out.put(message{Kind: kindPing})
		default:
			l.lose(fmt.Errorf("no answer to %d pings", pingsMax))
			return
		}
	}
}

// countPing is how many pings will be unanswered with the next one, zero if
// none is needed.
func (l *link) countPing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.unanswered = 0
		return 0
	}
	l.unanswered++
	return l.unanswered
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

// abandon ends the runs of a process that is no more: first their processes,
// then their callers' wait. As long as any is known to live nobody is to take a
// run for over, so it does not give up.
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
	for _, w := range waiting {
		w.done <- outcome{err: fmt.Errorf("%w: %w", ErrSupervisorLost, why)}
	}
}

func (l *link) isLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting == nil || l.err != nil
}

// begin sends a start; false means that the link is lost.
func (l *link) begin(run string, order *startOrder) (*waiter, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil || l.err != nil {
		return nil, false
	}
	w := &waiter{run: run, grace: order.Grace, done: make(chan outcome, 1)}
	l.waiting[run] = w
	l.out.put(message{Kind: kindStart, Run: run, Start: order})
	return w, true
}

// await returns the answer. There is always one: the supervisor's, or after it
// fell silent the one of abandon.
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

// pid is the number of the process, zero once it is gone.
func (l *link) pid() int {
	select {
	case <-l.gone:
		return 0
	default:
		return l.cmd.Process.Pid
	}
}

// finish closes our side of the stream and waits until the process has ended
// its runs and itself; one that takes longer than the longest grace allows is
// killed.
func (l *link) finish() error {
	close(l.closing)
	bound := l.cfg.Answer
	l.mu.Lock()
	for _, w := range l.waiting {
		bound = max(bound, l.cfg.Answer+w.grace)
	}
	l.mu.Unlock()
	l.out.close()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-l.gone:
		return nil
	case <-timer.C:
	}
	l.lose(fmt.Errorf("did not end within %s", bound))
	timer.Reset(3 * sweepMax)
	select {
	case <-l.gone:
		return nil
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("%w: %d processes could not be killed", ErrSupervisorLost, l.left)
}
