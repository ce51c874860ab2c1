package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/windlasstest"
)

// electionNames are the elections in which every node is a candidate.
var electionNames = []string{"e0", "e1"}

// ledArea is where leaders write, one key for each election.
const ledArea = "led/"

// elections has the state that elections add to a run. Like states it has its own
// source of randomness.
type elections struct {
	random *rand.Rand
	// leaders are the goroutines that lead when elected, and those that wait for a
	// stop.
	leaders sync.WaitGroup

	mu sync.Mutex
	// runs has the functions of leaders, by election.
	runs map[string][]*reign
}

// reign is a leader's function that runs in a term. The mutex of elections guards its
// end.
type reign struct {
	windlasstest.Run
	process *process
}

func newElections(seed uint64) *elections {
	return &elections{random: rand.New(rand.NewPCG(seed, 4)), runs: map[string][]*reign{}}
}

// termOf returns the election and the term of a key that a leader has written.
func termOf(kv broker.KV) (name string, token broker.Revision, ok bool) {
	name, ok = strings.CutPrefix(kv.Key, prefix+ledArea)
	n, err := strconv.ParseInt(string(kv.Value), 10, 64)
	return name, broker.Revision(n), ok && err == nil
}

// stand makes a process a candidate in every election.
func (p *process) stand() {
	w := p.world
	if w.elections == nil {
		return
	}
	p.elections = map[string]*election.Election{}
	for i, name := range electionNames {
		e, err := p.Election(name, election.Events{
			Elected:   func(election.Term) { w.count("leader elected") },
			Unelected: func(election.Term, error) { w.count("leader unelected") },
		})
		if err != nil {
			w.fail("election %s of %s: %v", name, p.Name(), err)
			return
		}
		p.elections[name] = e
		random := rand.New(rand.NewPCG(w.options.Seed, uint64(100*len(w.processes)+i)))
		w.elections.leaders.Go(func() { p.lead(e, random) })
	}
}

// lead leads while the process is alive, and becomes a candidate again when it was
// stopped.
func (p *process) lead(e *election.Election, random *rand.Rand) {
	for e.Start() == nil {
		err := e.Lead(context.Background(), func(ctx context.Context, term election.Term) error {
			return p.reign(ctx, e, term, random)
		})
		if err != nil && !errors.Is(err, election.ErrStopped) {
			p.world.fail("L08: Lead of %s returned %v", p.Name(), err)
		}
		time.Sleep(upTo(random, 3*time.Second))
	}
}

// reign writes about every second, until it is told to stop or a random time is over.
func (p *process) reign(ctx context.Context, e *election.Election, term election.Term, random *rand.Rand) error {
	<-p.started
	end := p.world.elections.begin(p, term)
	defer end()
	told := make(chan time.Time, 1)
	defer context.AfterFunc(ctx, func() { told <- time.Now() })()
	left := time.Duration(random.ExpFloat64() * float64(2*time.Minute))
	for left > 0 {
		p.decree(ctx, e, term)
		pause := upTo(random, 2*time.Second)
		left -= pause
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			p.abdicate(<-told, e, term, random.IntN(2) == 0)
			return ctx.Err()
		}
	}
	p.pass()
	return nil
}

// abdicate uses all of the grace since it was told to stop, or little, and tries to
// write once more.
func (p *process) abdicate(told time.Time, e *election.Election, term election.Term, late bool) {
	margin := p.timing.Grace / 100
	if late {
		handler{p}.rest(time.Until(told.Add(p.timing.Grace - 2*margin)))
	}
	last, cancel := context.WithDeadline(context.Background(), told.Add(p.timing.Grace-margin))
	defer cancel()
	p.decree(last, e, term)
}

// decree makes the write that only the leader makes.
func (p *process) decree(ctx context.Context, e *election.Election, term election.Term) {
	p.pass()
	_, err := e.Commit(ctx, term, broker.Txn{
		Then: []broker.Op{broker.Put(prefix+ledArea+term.Election, strconv.AppendInt(nil, term.Token, 10))},
	})
	if errors.Is(err, election.ErrNotLeader) {
		p.world.count("write refused because the term was over")
	}
	p.pass()
}

// begin records that a function runs, end that it has returned.
func (es *elections) begin(p *process, term election.Term) (end func()) {
	es.mu.Lock()
	defer es.mu.Unlock()
	r := &reign{process: p, Run: windlasstest.Run{Task: electionID(term.Election), Node: p.Name(), Token: term.Token, Started: time.Now()}}
	es.runs[r.Task] = append(es.runs[r.Task], r)
	return func() {
		es.mu.Lock()
		defer es.mu.Unlock()
		r.Ended = time.Now()
	}
}

// electionID returns the name of an election among those of tasks.
func electionID(name string) string { return "election:" + name }

// reigns returns the runs in an election. They end at the latest with their process.
func (es *elections) reigns(id string) (runs []windlasstest.Run) {
	es.mu.Lock()
	defer es.mu.Unlock()
	for _, r := range es.runs[id] {
		runs = append(runs, r.process.cutOff(r.Run))
	}
	return runs
}

// moveElections disturbs an election, or does nothing.
func (w *world) moveElections() {
	if w.elections == nil || len(w.up) == 0 {
		return
	}
	random := w.elections.random
	p, name := w.up[random.IntN(len(w.up))], electionNames[random.IntN(len(electionNames))]
	e := p.elections[name]
	switch random.IntN(12) {
	case 0:
		w.elections.leaders.Go(func() { _ = e.Stop(context.Background()) }) // however long that takes
		w.count("election stopped")
	case 1:
		w.elections.leaders.Go(func() { _ = e.Resign(context.Background()) })
		w.count("place in line given up")
	case 2, 3:
		if w.attempt(func(ctx context.Context) error {
			_, err := election.RequestResign(ctx, w.troubled, windlasstest.Namespace, name)
			return err
		}) == nil {
			w.count("leader asked to resign")
		}
	case 4:
		if w.profile.byHand && w.operate(broker.Delete(prefix+"elections/"+name+"/"+p.Name())) {
			w.count("entry of a candidate deleted by hand")
		}
	}
}

// misled reports what is wrong with the elections; nothing if each has one leader that
// knows it, and every node is a candidate (L08).
func (w *world) misled() string {
	if w.elections == nil {
		return ""
	}
	infos, err := election.List(w.t.Context(), w.store, windlasstest.Namespace)
	if err != nil {
		return err.Error()
	}
	standing := map[string]int{}
	for _, info := range infos {
		standing[info.Name] = len(info.Candidates)
	}
	for _, name := range electionNames {
		leaders := 0
		for _, p := range w.up {
			if p.elections[name].IsLeader() {
				leaders++
			}
		}
		if leaders != 1 || standing[name] != len(w.up) {
			return fmt.Sprintf("L08: election %s has %d leaders and %d candidates, and %d nodes live", name, leaders, standing[name], len(w.up))
		}
	}
	return ""
}
