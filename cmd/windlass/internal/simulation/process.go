package simulation

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

// process is a node as a process that can be killed, suspended and started again, with
// its own clock.
type process struct {
	*windlasstest.Node
	world  *world
	timing session.Timing
	// started is closed when Node is set; callbacks of the node wait for that.
	started chan struct{}

	// rate is how fast its clock is, as a fraction; negative if it is slow.
	rate float64
	// elections has its candidacies, by name.
	elections map[string]*election.Election
	// joined is true once it has joined.
	joined atomic.Bool
	// concurrency is that of its configuration.
	concurrency map[string]int

	mu sync.Mutex
	// diedAt is when it was killed, or had stopped; zero while it lives.
	diedAt time.Time
	// leaps is how far its clock has leapt ahead.
	leaps time.Duration
	// machine is the machine that it runs on.
	machine machine
	// resumed is closed when a suspension ends; nil while there is none.
	resumed chan struct{}
	// overdue has the tasks whose handlers were overdue while it was suspended.
	overdue []string
	// suspensions are the times during which it made no step.
	suspensions []window
}

// window is a period of time; to is zero if it has not ended.
type window struct{ from, to time.Time }

// start starts a process with a name that no running one has.
func (w *world) start(name string) *process {
	p := &process{world: w, timing: session.Derive(w.profile.ttl), started: make(chan struct{})}
	newerVersion := len(w.processes)%newerEvery == newerEvery-1
	p.rate = (2*w.random.Float64() - 1) * w.profile.drift
	config := windlass.Config{
		SessionTTL: w.profile.ttl, ReturnWithin: w.profile.returnWithin,
		Retention: w.profile.retention,
		Clock:     p.clock,
		Handlers:  map[string]windlass.NewHandler{windlass.AnyType: p.newHandler},
		Fence:     p.fence,
		Events:    p.events(),
		Coordinator: func(plain coordinator.Coordinator) coordinator.Coordinator {
			if newerVersion {
				plain = &newer{Coordinator: plain, store: w.store}
			}
			if w.profile.crowded {
				plain = crowd{plain}
			}
			return &witness{Coordinator: plain, ops: &w.operations, log: w.log}
		},
	}
	var pulls []string
	if w.jobs != nil {
		pulls = w.jobs.configure(&config)
	}
	p.concurrency = config.Concurrency
	p.Node = w.cluster.Start(name, config)
	p.stand()
	close(p.started)
	p.pull(pulls)
	w.processes = append(w.processes, p)
	w.up = append(w.up, p)
	return p
}

// Kill kills the process.
func (p *process) Kill() {
	p.Node.Kill()
	p.dies()
}

// Stop ends the process in good order.
func (p *process) Stop() error {
	err := p.Node.Stop()
	p.dies()
	return err
}

func (p *process) dies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.diedAt.IsZero() {
		p.diedAt = time.Now()
	}
}

// cutOff returns a run as it ended at the latest with its process; p is nil for a run
// without one.
func (p *process) cutOff(run windlasstest.Run) windlasstest.Run {
	if p == nil {
		return run
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.diedAt.IsZero() && (run.Ended.IsZero() || p.diedAt.Before(run.Ended)) {
		run.Ended, run.Killed = p.diedAt, true
	}
	return run
}

func (p *process) clock() (boot, day time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	boot, day = clock.Process()
	unseen, unset := p.machine.behind(time.Now())
	return boot + time.Duration(float64(boot)*p.rate) + p.leaps - unseen, day - unset
}

// leap sets the clock ahead, as after a suspension of the machine that its timers did
// not notice.
func (p *process) leap(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaps += d
}

// fence is the policy of the program: overdue handlers end the process. Killing it takes
// nearly all of the slack.
func (p *process) fence(overdue func() []string) {
	<-p.started
	ids := overdue()
	for _, id := range ids {
		if behaviourOf(id) != stubborn && !p.hurried() {
			p.world.fail("M14: the handler of %q, which returns within its grace, is overdue on %s", id, p.Name())
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed != nil {
		p.overdue = append(p.overdue, ids...) // the process notices it when it resumes
		return
	}
	p.world.count("process ended by the fence")
	time.AfterFunc(p.timing.Slack*9/10, p.Kill)
}

// suspend stops the process as SIGSTOP does. Its timers cannot be stopped here,
// but neither its handlers nor its calls get any further.
func (p *process) suspend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resumed != nil {
		return
	}
	p.resumed = make(chan struct{})
	p.suspensions = append(p.suspensions, window{from: time.Now()})
	p.Freeze()
}

// resume continues the process as SIGCONT does: the handlers run until the process
// notices how much time has passed.
func (p *process) resume() { p.goOn(p.Thaw) }

// goOn is resume, with another function to restore the network.
func (p *process) goOn(network func()) {
	p.mu.Lock()
	if p.resumed == nil {
		p.mu.Unlock()
		return
	}
	close(p.resumed)
	p.resumed = nil
	p.suspensions[len(p.suspensions)-1].to = time.Now()
	overdue := p.overdue
	p.overdue = nil
	p.mu.Unlock()
	network()
	synctest.Wait()
	if slices.ContainsFunc(overdue, p.runs) {
		p.world.count("process ended by the fence")
		p.Kill()
	}
}

// hurried reports whether its handlers may have had less than their grace: it is
// suspended, or was during that time, its clock was set beyond both deadlines, its machine
// was stopped, or an operator has revoked its session.
func (p *process) hurried() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	suspended := slices.ContainsFunc(p.suspensions, func(w window) bool { return w.to.IsZero() || time.Since(w.to) <= p.timing.Grace })
	return suspended || p.leaps > 0 || p.machine.unseen > 0 || p.world.profile.byHand
}

// runs reports whether a handler of a task has not returned here.
func (p *process) runs(id string) bool {
	return slices.ContainsFunc(p.world.runsOf(id), func(r windlasstest.Run) bool {
		return r.Node == p.Name() && r.Ended.IsZero()
	})
}

// pass waits while the process is suspended.
func (p *process) pass() {
	for {
		p.mu.Lock()
		resumed := p.resumed
		p.mu.Unlock()
		if resumed == nil || p.Killed() {
			return
		}
		<-resumed
	}
}

// mend ends all faults of the process.
func (p *process) mend() {
	p.Faults().Use(nil)
	p.resume()
	p.Thaw()
	p.Heal()
}

func (p *process) events() events.Node {
	w := p.world
	return events.Node{
		Joined:  func(string, session.Timing) { p.joined.Store(true) },
		Errored: w.noteSetAside,
		Fenced:  func(string, int64, error) { w.count(countFenced) },
		Adopted: func(string, int64) { w.count("claim adopted") },
		Commanded: func(command string, err error) {
			<-p.started
			if command == operate.StopTask && err != nil {
				w.commands.executed(p.Name(), fmt.Sprint(err))
			}
		},
	}
}
