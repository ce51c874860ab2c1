package exectask

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
	"github.com/windlass-go/windlass/internal/clock"
)

// Config configures how a node runs commands. Args is required; the zero value of every
// other field works.
type Config struct {
	// Args are the arguments with which this program calls SuperviseMain: the hidden
	// subcommand.
	Args []string
	// Env is added to the supervisor's own environment. Children never see it.
	Env []string
	// Node is the node's name, at most TaskMax bytes: WINDLASS_NODE.
	Node string
	// LogDir is the absolute folder of the tasks' logs; it is made with mode
	// 0700. Empty means that no logs are kept.
	LogDir string
	// TrustAbove is true if who may write to a folder above LogDir is trusted, and so may put another in
	// its place.
	TrustAbove bool
	// LogMax is the size in bytes at which a task's log becomes ".1": 0 means LogDefault,
	// at least LogMin. A task's logs take twice that.
	LogMax int64
	// LogAge is for how long a log is kept after it was last written to: 0 means
	// LogAgeDefault.
	LogAge time.Duration
	// LogSpace is how many bytes the logs in LogDir may take together before the
	// oldest are removed: 0 means LogSpaceDefault, at least LogMin. Logs in use stay in
	// any case. The folder is checked every five minutes; a file counts as 4 KiB at least.
	LogSpace int64
	// Tail is how many bytes of output a Result carries: 0 means TailDefault,
	// at most TailMax.
	Tail int
	// Grace is the time from SIGTERM to SIGKILL of commands that set none: 0
	// means GraceDefault, at most GraceMax.
	Grace time.Duration
	// Answer is how long the supervisor may be silent before it counts as lost and is
	// killed with all its runs: 0 means AnswerDefault, 1 s to a minute.
	Answer time.Duration
	// Stdio, if set, are standard input, output and error of every command. By default
	// input is empty, and the output is logged and its end kept. The supervisor has the
	// files open until it ends.
	Stdio *[3]*os.File
	// User is the user that commands run as: nil means this process's own.
	User *User
	// Lost is told, if set, that the supervisor has died or fallen silent, and which tasks' commands have
	// died with it. Their runs end with ErrSupervisorLost when it has returned.
	Lost func(tasks []string)
	// Stderr gets the supervisor's error messages: nil means standard error.
	Stderr *os.File
}

// withDefaults replaces zero values by their defaults and refuses values out of bounds.
func (c Config) withDefaults() (Config, error) {
	if len(c.Args) == 0 {
		return c, refuse("Args", "empty", "must start the supervisor")
	}
	if len(c.Node) > TaskMax {
		return c, refuse("Node", quote(c.Node), fmt.Sprintf("at most %d bytes", TaskMax))
	}
	c.LogMax = cmp.Or(c.LogMax, LogDefault)
	c.LogAge = cmp.Or(c.LogAge, LogAgeDefault)
	c.LogSpace = cmp.Or(c.LogSpace, LogSpaceDefault)
	c.Tail = cmp.Or(c.Tail, TailDefault)
	c.Grace = cmp.Or(c.Grace, GraceDefault)
	c.Answer = cmp.Or(c.Answer, AnswerDefault)
	c.Stderr = cmp.Or(c.Stderr, os.Stderr)
	switch {
	case c.LogMax < LogMin:
		return c, refuse("LogMax", c.LogMax, fmt.Sprintf("at least %d bytes", LogMin))
	case c.LogAge < 0:
		return c, refuse("LogAge", c.LogAge, "must not be negative")
	case c.LogSpace < LogMin:
		return c, refuse("LogSpace", c.LogSpace, fmt.Sprintf("at least %d bytes", LogMin))
	case c.Tail < 0 || c.Tail > TailMax:
		return c, refuse("Tail", c.Tail, fmt.Sprintf("0 to %d bytes", TailMax))
	case c.Grace < 0 || c.Grace > GraceMax:
		return c, refuse("Grace", c.Grace, fmt.Sprintf("0 to %s", GraceMax))
	case c.Answer < time.Second || c.Answer > time.Minute:
		return c, refuse("Answer", c.Answer, "1s to 1m0s")
	}
	return c, nil
}

// A Supervisor is the node's handle on its supervisor process. All methods may
// be called from any goroutine.
type Supervisor struct {
	cfg Config

	// spawning is held while a process is started, which takes up to StartMax.
	// SetDeadline never takes it.
	spawning sync.Mutex
	first    sync.Once // of Run

	tending  sync.WaitGroup // tendLogs
	stopTend context.CancelFunc

	mu     sync.Mutex
	link   *link     // the process in use; nil until the first and after Close
	until  *deadline // nil until SetDeadline was called
	closed bool
}

// Start ends the control groups of supervisors that died with their node, starts the
// supervisor process and waits until it is ready; ctx bounds only that. Nothing runs
// before SetDeadline is called.
func Start(ctx context.Context, cfg Config) (*Supervisor, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := Available(); err != nil {
		return nil, err
	}
	if cfg.LogDir, err = prepareLogDir(cfg.LogDir, cfg.TrustAbove); err != nil {
		return nil, err
	}
	s := &Supervisor{cfg: cfg}
	s.sweep()
	if _, err := s.live(ctx); err != nil {
		return nil, err
	}
	tend, stop := context.WithCancel(context.Background())
	if s.stopTend = stop; cfg.LogDir != "" {
		s.tending.Go(func() { s.tendLogs(tend) })
	}
	return s, nil
}

// LogDir is the folder of the logs, by its path without links; empty for none.
func (s *Supervisor) LogDir() string { return s.cfg.LogDir }

// live returns the supervisor in use, after starting one if there is none or the last was
// lost.
func (s *Supervisor) live(ctx context.Context) (*link, error) {
	s.spawning.Lock()
	defer s.spawning.Unlock()
	s.mu.Lock()
	l, closed := s.link, s.closed
	s.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if l != nil && !l.isLost() {
		return l, nil
	}
	if l != nil {
		// Its runs must be dead before others of the same tasks may start.
		select {
		case <-l.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	l, err := spawnRetry(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	if s.until != nil {
		l.out.put(message{Kind: kindDeadline, Until: s.until})
	}
	return l, nil
}

// SetDeadline sets until when commands may live, as readings of Boot: at stop they get
// SIGTERM, at hard SIGKILL. The latest call counts, also when it brings the deadline
// closer. If the time of day is set forward meanwhile, that counts as time that passed. A
// command that has been told to stop is not told to go on. SetDeadline never blocks.
func (s *Supervisor) SetDeadline(stop, hard time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = newDeadline(stop, hard, clock.Clock(clock.Machine).Read())
	if s.link != nil {
		s.link.out.put(message{Kind: kindDeadline, Until: s.until})
	}
}

// Run starts a command and returns when it has ended and no process of it is
// alive. When ctx ends, the command gets SIGTERM, and SIGKILL after its grace.
// A nil error means that the command did start; how it ended is in the Result.
//
// With ErrSupervisorLost every known process of the command was killed and its result is
// lost, or no supervisor could be started for it.
func (s *Supervisor) Run(ctx context.Context, c Command) (Result, error) {
	if err := c.validate(); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("task %q not started: %w", c.Task, context.Cause(ctx))
	}
	s.first.Do(s.sweep) // again: when Start did, they may still have been dying
	c.Grace = cmp.Or(c.Grace, s.cfg.Grace)
	run := rand.Text()
	order := s.order(c, run)
	for {
		l, err := s.live(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("task %q not started: %w", c.Task, unsupervised(err))
		}
		if w, ok := l.begin(run, c, order); ok {
			return l.await(ctx, w)
		}
		// It was just lost; live waits for its end.
	}
}

// sweep ends the groups of supervisors that died with their nodes. An error keeps nothing
// from starting: a process that cannot be killed yet no longer executes.
func (s *Supervisor) sweep() {
	if err := cgroup.Sweep(sweepMax); err != nil {
		fmt.Fprintf(s.cfg.Stderr, "windlass: what an earlier node has left behind: %v\n", err)
	}
}

// unsupervised returns the error of a run for which no supervisor could be started.
func unsupervised(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSupervisorLost, err)
}

// order returns the message that starts a command.
func (s *Supervisor) order(c Command, run string) *startOrder {
	o := &startOrder{
		Path:   []byte(c.Path),
		Argv:   toBytes(c.Argv),
		Env:    toBytes(c.environment(s.cfg.Node, run, s.cfg.User)),
		Dir:    []byte(c.Dir),
		LogMax: s.cfg.LogMax,
		Tail:   s.cfg.Tail,
		Grace:  c.Grace,
		Stdio:  s.cfg.Stdio != nil,
		User:   s.cfg.User,
	}
	if s.cfg.LogDir != "" {
		o.Log = []byte(LogPath(s.cfg.LogDir, c.Task))
		o.Header = fmt.Sprintf("--- windlass %s node=%q token=%s run=%s", time.Now().UTC().Format(time.RFC3339), s.cfg.Node, c.Token, run)
	}
	return o
}

// Ungrouped returns why commands have no control group of their own, by which everything
// that they start can be ended whatever dies; nil if they have one.
func (s *Supervisor) Ungrouped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return ErrClosed
	}
	return s.link.ungrouped
}

// Pid returns the process ID of the supervisor in use, zero if there is none.
func (s *Supervisor) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil {
		return 0
	}
	return s.link.pid()
}

// Close ends all runs, each with its grace, and returns when the supervisor
// process has ended. Every Run returns; later ones give ErrClosed.
func (s *Supervisor) Close() error {
	s.stopTend()
	defer s.tending.Wait()
	s.spawning.Lock()
	defer s.spawning.Unlock()
	s.mu.Lock()
	l := s.link
	s.link, s.closed = nil, true
	s.mu.Unlock()
	if l == nil {
		return nil
	}
	return l.finish()
}
