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
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

// Options are how one seed is run.
type Options struct {
	// Seed decides everything.
	Seed uint64
	// Length is how much virtual time is simulated at least.
	Length time.Duration
	// States has tasks be sent commands, receive messages and save progress.
	States bool
	// Jobs has trees of jobs be queued, run by handlers and dequeued.
	Jobs bool
	// Elections has every node stand in elections, whose leaders write.
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
	// random decides what the storm does, besides what came to it later: seeds stay what
	// they are.
	random, besides *rand.Rand

	stage   *stage
	cluster *windlasstest.Cluster
	// effects and progress are stores outside of Windlass that handlers write to.
	effects, progress *windlasstest.Ledger
	// store is the operator's connection, troubled the clients'.
	store    broker.Broker
	troubled *faulty.Broker
	client   *windlass.Client
	// detached is that of the scripts, operator that of nobody with trouble.
	detached, operator *windlass.Client
	log                *history.Log
	// logMu guards log, which the follower writes.
	logMu      sync.Mutex
	operations operations
	commands   commands
	// states is nil without commands to tasks.
	states *states
	// jobs is nil without trees of jobs.
	jobs *jobs
	// elections is nil without elections.
	elections *elections

	// processes are all that were ever started, up those that were not killed or
	// stopped.
	processes, up []*process
	names         int
	// stopping are those that end in good order while something is measured.
	stopping sync.WaitGroup
	// expected are the tasks that were acknowledged and not deleted since.
	expected map[string]bool
	// deleted are tasks whose deletion was acknowledged.
	deleted   []string
	submitted int
	// circled counts the circles of tasks that need each other.
	circled int
	// corrupt are keys with values that nobody can read, by what to do about it.
	corrupt []string

	mu     sync.Mutex // guards report
	report *Report
	wrong  []string
}

// The names of counts that the report gives a place of their own.
const countFenced = "fenced"

// Run runs one seed and fails the test for everything that is wrong.
func Run(t *testing.T, options Options) *Report {
	t.Helper()
	w := &world{
		t: t, options: options, random: rand.New(rand.NewPCG(options.Seed, 1)), besides: rand.New(rand.NewPCG(options.Seed, 6)), expected: map[string]bool{},
		report: newReport(),
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
	defer os.RemoveAll(dir) // what cannot be removed is the system's to remove
	// Also if the bubble has failed, which ends the test where it is.
	defer func() {
		for _, text := range w.wrong {
			t.Errorf("seed %d (%v): %s", options.Seed, w.profile, text)
		}
	}()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		w.t = t
		w.stage = &stage{dir: dir, guarded: w.profile.guarded}
		w.play()
	})
	w.report.Real = time.Since(began)
	// Outside of the bubble, where time limits are real.
	wrong, undecided := w.operations.linearizable(linearMax)
	wrong = append(wrong, w.commands.disorder(linearMax)...)
	w.report.Undecided = undecided
	w.wrong = append(w.wrong, wrong...)
	return w.report
}

// linearMax bounds the check of one task's operations, in real time.
const linearMax = 10 * time.Second

// fail notes something that is wrong.
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

// play is the whole run, inside its bubble.
func (w *world) play() {
	began := time.Now()
	if err := w.stage.start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.cluster = windlasstest.New(w.t, windlasstest.Options{
		Open:          w.open,
		AllowOverlaps: true,
	})
	w.effects, w.progress = w.cluster.NewLedger(), w.cluster.NewLedger()
	w.store, w.troubled = w.cluster.Connect(), w.cluster.Connect()
	var err error
	if w.client, err = windlass.NewClient(w.troubled, windlasstest.Namespace); err != nil {
		w.t.Fatal(err)
	}
	if w.log, err = history.New(windlasstest.Namespace); err != nil {
		w.t.Fatal(err)
	}
	if w.operator, err = windlass.NewClient(w.store, windlasstest.Namespace); err != nil {
		w.t.Fatal(err)
	}
	if w.detached, err = windlass.NewClient(announcing{w.troubled, w.log}, windlasstest.Namespace); err != nil {
		w.t.Fatal(err)
	}
	w.log.Observer = w.operations.observer()
	w.log.Term = termOf
	following, stop := context.WithCancel(w.t.Context())
	var follower sync.WaitGroup
	follower.Go(func() { w.follow(following) })
	for time.Since(began) < w.options.Length && !w.failed() {
		w.round()
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

// open connects a node or a client.
func (w *world) open() broker.Broker {
	b := w.connect(nodeUser)
	if l, ok := b.(*line); ok && w.profile.leavesOut {
		return leavingOut{l, func(n int) { w.countN("overwritten value left out of a watch", n) }}
	}
	return b
}

// connect connects somebody, who has a password where the store asks for one.
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

// follow feeds the log with every event of the store, across its restarts.
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

// round is a storm, what settles it, a take-over that is measured, and quiet.
func (w *world) round() {
	for len(w.up) < w.profile.nodes {
		w.start(w.newName())
	}
	w.setCalm(false)
	w.submit(5 + w.random.IntN(20))
	for end := time.Now().Add(w.profile.storm); time.Now().Before(end) && !w.failed(); {
		w.happen()
		w.submitCircle()
		w.endTokens()
		w.commandTasks()
		w.commandJobs()
		w.moveElections()
		w.cluster.Advance(time.Duration(w.random.ExpFloat64() * float64(w.profile.pace)))
	}
	w.heal()
	w.settle()
	if !w.failed() && w.random.IntN(3) == 0 {
		// In a calm, where no coming and going of others hides what follows.
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
	// The claims of nodes whose handlers were late go with their sessions.
	time.Sleep(3 * w.profile.ttl)
	w.operations.decide()
}

// witness looks on, as "windlass serve" does: of the last node nobody else would be left to
// end the session, should it die as it leaves.
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

// removeUp takes a process off the list of those that are up.
func (w *world) removeUp(p *process) {
	w.up = slices.DeleteFunc(w.up, func(q *process) bool { return q == p })
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) { w.cluster.Advance(d) }
