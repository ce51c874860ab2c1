package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

// Options are how one seed is run.
type Options struct {
	// Seed decides everything.
	Seed uint64
	// Length is how much virtual time is simulated at least.
	Length time.Duration
	// States adds commands to tasks, messages to handlers and saved progress.
	States bool
	// Jobs adds trees of jobs that are queued, run by handlers and dequeued.
	Jobs bool
	// Elections makes every node a candidate in elections, whose leaders write.
	Elections bool
	// Even fails a run that ends with tasks unevenly spread (V2) instead of logging it:
	// how nodes settle depends a little on how goroutines are scheduled.
	Even bool
}

// world is one run.
type world struct {
	t       *testing.T
	options Options
	profile profile
	// random decides what the storm does, besides the faults that were added later, so
	// that seeds stay the same.
	random, besides *rand.Rand
	// pauses decides about pauses of types.
	pauses *rand.Rand

	stage   *stage
	cluster *windlasstest.Cluster
	// effects and progress are stores outside of Windlass that handlers write to.
	effects, progress *windlasstest.Ledger
	// store is the operator's connection, troubled the clients', with faults.
	store    broker.Broker
	troubled *faulty.Broker
	client   *windlass.Client
	// operator is a client without faults.
	operator *windlass.Client
	leases   *lease.Leases // of the scripts
	log      *history.Log
	// logMu guards log, which the follower writes.
	logMu      sync.Mutex
	operations operations
	commands   commands
	updates    updates
	// states is nil without commands to tasks.
	states *states
	// jobs is nil without trees of jobs.
	jobs *jobs
	// elections is nil without elections.
	elections *elections

	// processes are all that were started, up those that were not killed or stopped.
	processes, up []*process
	names         int
	// amissLast is the check that last found something amiss.
	amissLast int
	// stopping are the nodes that stop in good order while a take-over is measured.
	stopping sync.WaitGroup
	// expected has the tasks that were acknowledged and not deleted since.
	expected map[string]bool
	// setAside has those of them that were found to blame for deaths of processes.
	setAside map[string]bool
	// deleted has the tasks whose deletion was acknowledged.
	deleted   []string
	submitted int
	// circled counts the cycles of tasks that need each other.
	circled int
	// corrupt has the keys written by hand, to be deleted when all is healed.
	corrupt []string

	mu     sync.Mutex // guards report
	report *Report
	wrong  []string
}

// countFenced is the count that the report shows in a line of its own.
const countFenced = "fenced"

// Run runs one seed and fails the test for each violation.
func Run(t *testing.T, options Options) *Report {
	t.Helper()
	w := &world{
		t: t, options: options, random: rand.New(rand.NewPCG(options.Seed, 1)), besides: rand.New(rand.NewPCG(options.Seed, 6)), pauses: rand.New(rand.NewPCG(options.Seed, 8)), expected: map[string]bool{}, setAside: map[string]bool{},
		report: newReport(), operations: newOperations(), commands: commands{sent: map[string]*command{}, done: map[string][]string{}},
		updates: updates{random: rand.New(rand.NewPCG(options.Seed, 7)), with: map[string]runsWith{}},
	}
	if options.States {
		w.states = newStates(options.Seed)
	}
	if options.Jobs {
		w.jobs = newJobs(options.Seed)
	}
	if options.Elections {
		w.elections = newElections(options.Seed)
	}
	w.profile = newProfile(options.Seed, w.random)
	w.commands.now = w.operations.now
	dir, err := os.MkdirTemp("", "windlass-simulation-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) // best effort, in a temporary directory
	// Deferred, because a failure in virtual time ends the test.
	defer func() {
		for _, text := range w.wrong {
			t.Errorf("seed %d (%v): %s", options.Seed, w.profile, text)
		}
	}()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		w.stage = &stage{dir: dir, guarded: w.profile.guarded, members: members{leases: map[int64]etcdLease{}}}
		w.play()
	})
	w.report.Real = time.Since(began)
	// In real time, because the checks have time limits.
	wrong, undecided := w.operations.linearizable(linearMax)
	wrong = append(wrong, w.commands.disorder(linearMax)...)
	w.report.Undecided = undecided
	w.wrong = append(w.wrong, wrong...)
	return w.report
}

// linearMax limits the check of one task's operations, in real time.
const linearMax = 10 * time.Second

// fail records a violation.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < history.ViolationsMax {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

func (w *world) count(what string) { w.countN(what, 1) }

func (w *world) countN(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Counts[what] += n
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wrong) > 0
}

// reordered returns the clients' connection. With every other seed the requests of a call
// arrive in any order.
func (w *world) reordered() broker.Broker {
	if w.options.Seed%2 == 0 {
		return w.troubled
	}
	return faulty.Wrap(w.troubled, &faulty.Plan{Seed: w.options.Seed, Rules: []faulty.Rule{{Fault: faulty.Reorder, Duration: 20 * time.Millisecond, Chance: 0.5}}})
}

// play is the whole run, in virtual time.
func (w *world) play() {
	began := time.Now()
	if err := w.stage.start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.cluster = windlasstest.New(w.t, windlasstest.Options{Open: w.open, AllowOverlaps: true})
	w.effects, w.progress = w.cluster.NewLedger(), w.cluster.NewLedger()
	w.store, w.troubled = w.cluster.Connect(), w.cluster.Connect()
	var err error
	if w.log, err = history.New(windlasstest.Namespace); err != nil {
		w.t.Fatal(err)
	}
	if w.profile.crowded {
		w.log.Conditions = 0
	}
	w.client, w.operator = w.newClient(announcing{w.reordered(), w.log}), w.newClient(w.store)
	w.leases = lease.New(w.newClient(announcing{w.troubled, w.log}), nil)
	w.log.Observer = w.operations.observer()
	w.log.Term = termOf
	following, stop := context.WithCancel(w.t.Context())
	var follower sync.WaitGroup
	follower.Go(func() { w.follow(following) })
	for time.Since(began) < w.options.Length && !w.failed() {
		w.round()
	}
	if w.profile.grouped && !w.failed() {
		w.spreadGroups()
	}
	w.end()
	synctest.Wait()
	stop()
	follower.Wait()
	if err := w.stage.close(); err != nil {
		w.t.Error(err)
	}
	w.judge()
	w.report.Virtual = time.Since(began)
}

func (w *world) newClient(b broker.Broker) *windlass.Client {
	client, err := windlass.NewClient(b, windlasstest.Namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// open connects a node or a client.
func (w *world) open() broker.Broker {
	b := w.connect(nodeUser)
	if l, ok := b.(*line); ok && w.profile.leavesOut {
		return leavingOut{l, func(n int) { w.countN("overwritten value left out of a watch", n) }}
	}
	return b
}

// connect opens a connection, with a password if the store requires one.
func (w *world) connect(user string) broker.Broker {
	if !w.stage.guarded {
		return &line{stage: w.stage}
	}
	b, err := w.stage.connect(user)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// follow passes every event of the store to the log, across restarts.
func (w *world) follow(ctx context.Context) {
	own := w.connect(rootUser)
	defer own.Close() // only read from
	from := broker.Revision(1)
	for ctx.Err() == nil {
		for batch, err := range own.Watch(ctx, prefix, from) {
			if err != nil {
				if !broker.Temporary(err) && ctx.Err() == nil {
					w.fail("the history cannot be followed from %d: %v", from, err)
					return
				}
				break
			}
			w.logMu.Lock()
			w.log.Apply(batch.Events)
			if w.jobs != nil {
				w.jobs.log.take(batch.Events)
			}
			w.logMu.Unlock()
			from = batch.Revision + 1
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// round is a storm, the settling after it, a measured take-over, and a quiet period.
func (w *world) round() {
	for len(w.up) < w.profile.nodes {
		w.start(w.newName())
	}
	w.setCalm(false)
	w.submit(5 + w.random.IntN(20))
	for end := time.Now().Add(w.profile.storm); time.Now().Before(end) && !w.failed(); {
		w.happen()
		w.submitCircle()
		w.updateTask()
		w.pauseType()
		w.endTokens()
		w.commandTasks()
		w.commandJobs()
		w.moveElections()
		w.cluster.Advance(time.Duration(w.random.ExpFloat64() * float64(w.profile.pace)))
	}
	w.heal()
	w.settle()
	if !w.failed() && w.random.IntN(3) == 0 {
		// While everything else is calm, so that nothing hides the effect.
		w.onNode(w.starve, false)
		w.count("node that lives and cannot claim")
		w.settle()
	}
	if !w.failed() {
		w.takeOver()
	}
	w.cluster.Advance(w.profile.quiet)
}

// end closes everything, as far as the failure of a test allows.
func (w *world) end() {
	w.heal()
	leave := w.witness()
	defer leave()
	w.cluster.Close()
	if w.jobs != nil {
		w.jobs.pullers.Wait()
	}
	if w.elections != nil {
		w.elections.leaders.Wait()
	}
	// The claims of nodes with late handlers end with their sessions.
	time.Sleep(3 * w.profile.ttl)
	w.operations.decide()
}

// witness keeps a session, as "windlass serve" does. Without it nothing would end the
// session of the last node if that dies as it leaves.
func (w *world) witness() (leave func()) {
	own := w.connect(nodeUser)
	ctx, stop := context.WithCancel(w.t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		if err := session.Witness(ctx, own, session.Config{TTL: w.profile.ttl, Folder: prefix + "sessions/"}); ctx.Err() == nil {
			w.fail("the witness has no session: %v", err)
		}
	})
	return func() {
		stop()
		looking.Wait()
		if err := own.Close(); err != nil {
			w.fail("the witness: %v", err)
		}
	}
}

func (w *world) newName() string {
	w.names++
	return fmt.Sprintf("n%d", w.names)
}

// removeUp removes a process from those that are up.
func (w *world) removeUp(p *process) {
	w.up = slices.DeleteFunc(w.up, func(q *process) bool { return q == p })
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) { w.cluster.Advance(d) }
