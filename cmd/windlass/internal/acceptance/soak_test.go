//go:build e2e && linux

package acceptance

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	soakTime = flag.Duration("soak", 20*time.Second, "how long TestSoak goes on")
	soakSeed = flag.Uint64("soak-seed", 0, "what TestSoak draws its faults from; zero draws the seed as well")
)

// Sizes of the soak.
const (
	soakNodes   = 5
	soakEndless = 80
	// soakDetaching of them detach what they start.
	soakDetaching = 20
	burstMin      = 6 * time.Second
	burstMax      = 20 * time.Second
	pauseMax      = 1500 * time.Millisecond // between two faults of a burst
)

// settleMax bounds how long after the last fault everything runs again: what
// takes longest is a task of the stream that has to begin anew.
const settleMax = 2 * time.Minute

// soak is a fleet under random faults: nodes and members are killed, frozen, cut off and
// stopped, while short commands are submitted and others never end.
type soak struct {
	*fleet
	store    quorum
	seed     uint64
	random   *rand.Rand
	citizens []*citizen
	weather  []weather // by member
	stream   *stream
	ledger   *ledger

	began     time.Time
	injected  map[string]int
	refusals  map[int]int // starts of nodes that could not join, by exit code
	fenced    int
	audited   int
	again     int // runs of a command that had reached its end before, unrecorded
	lost      []string
	takeovers map[string][]time.Duration
}

func isEndless(task string) bool { return strings.HasPrefix(task, "endless-") }

func TestSoak_M11_M14_NothingIsLostOrRunsTwiceThroughARandomStorm(t *testing.T) {
	runSoak(t, onEtcd)
}

func onEtcd(w *world, net *network) quorum { return startCluster(w, clusterConfig{net: net}) }

// runSoak goes on for the time that -soak says.
func runSoak(t *testing.T, open func(*world, *network) quorum) {
	t.Helper()
	s := newSoak(t, open, time.Now().Add(max(*soakTime-finiteMax, *soakTime/2)))
	defer func() { t.Logf("the soak:\n\n%s", s.report()) }()
	kinds := slices.Clone(takeoverKinds)
	cycles := 0
	for spent := time.Duration(0); cycles == 0 || spent+spent/time.Duration(2*cycles) < *soakTime; spent = time.Since(s.began) {
		promised := s.stream.pending()
		s.burst()
		s.settle(nil)
		kind := kinds[cycles%len(kinds)]
		s.measure(kind)
		s.settle(promised)
		s.audit()
		s.tidy()
		cycles++
		t.Logf("cycle %d after %v: %d grants, %d of the stream audited, %d lost, take-over after %s at most %v so far", cycles,
			time.Since(s.began).Round(time.Second), s.grants(), s.audited, len(s.lost), kind, s.longestTakeover(kind))
		if t.Failed() {
			break
		}
	}
	s.finish()
}

// finish ends everything, and checks that the store has only expected keys left.
func (s *soak) finish(expected ...string) {
	s.t.Helper()
	s.stream.end()
	s.settle(s.stream.pending())
	s.audit()
	s.tidy()
	s.must("task", "kill", "--id-prefix", "endless-", "--yes", "--wait", "--timeout", "1m")
	prune := func() { s.must("task", "prune", "--older-than", "1ms", "--yes") }
	// Nodes leave no session that they did not get: the others end it, a minute later.
	s.eventually(patience, func() string {
		prune()
		if n, err := s.sessions(); err != nil || n > len(s.citizens) {
			return fmt.Sprintf("seed %d: %d nodes have no more than as many sessions: %d, %v", s.seed, len(s.citizens), n, err)
		}
		return s.remains("nodes/", "sessions/", "lease", "elections/_retention/", "history/")
	})
	for _, c := range s.citizens {
		s.endsCleanly(c.process)
	}
	// A node writes down a little later what has happened to a task, and at its end what is
	// left to be written.
	prune()
	s.eventually(patience, func() string { return s.remains(expected...) })
}

// sessions counts the sessions that the store has keys of.
func (s *soak) sessions() (int, error) {
	left, err := s.store.left(context.Background(), root)
	folders := map[string]bool{}
	for _, key := range left {
		if of, ok := strings.CutPrefix(key, root+"sessions/"); ok {
			folders[path.Dir(of)] = true
		}
	}
	return len(folders), err
}

// remains names the keys of the store other than the layout and the expected ones.
func (s *soak) remains(expected ...string) string {
	left, err := s.store.left(context.Background(), root)
	if err != nil {
		return err.Error()
	}
	left = slices.DeleteFunc(left, func(key string) bool {
		key = strings.TrimPrefix(key, root)
		if ok, _ := path.Match("nodes/*/deaths/*", key); ok { // they are kept for an hour
			return true
		}
		return key == "layout" || slices.ContainsFunc(expected, func(e string) bool { return strings.HasPrefix(key, e) })
	})
	if len(left) > 0 {
		return fmt.Sprintf("seed %d: nothing is left of %d keys and leases: %q", s.seed, len(left), left[:min(len(left), 20)])
	}
	return ""
}

// newSoak starts a quorum and a fleet of the given programs, or of the present one, and a
// stream of tasks until some time.
func newSoak(t *testing.T, open func(*world, *network) quorum, until time.Time, programs ...string) *soak {
	t.Helper()
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; -soak-seed %d draws the same numbers, which meet the same processes as far as time allows", seed, seed)
	net := newNetwork(t)
	s := &soak{
		seed: seed, random: rand.New(rand.NewPCG(seed, 1)), fleet: fleetOf(newWorld(t)),
		injected: map[string]int{}, refusals: map[int]int{}, takeovers: map[string][]time.Duration{}, began: time.Now(),
	}
	if s.net, s.program = net, map[string]string{}; len(programs) > 0 {
		s.use(programs...)
	}
	s.store = open(s.world, net)
	s.weather = make([]weather, s.store.size())
	s.env = append(s.env, "WINDLASS_BROKER="+s.store.address())
	s.ledger = startLedger(t, s.store)
	for i := range soakNodes {
		c := &citizen{name: fmt.Sprintf("n%d", i+1)}
		s.net.add(c.name)
		s.startCitizen(c)
		s.citizens = append(s.citizens, c)
	}
	endless := s.commands("endless-", soakEndless, forever)
	copy(endless, s.commands("endless-", soakDetaching, detaching))
	if len(programs) == 0 { // nodes are killed here, and no task is to blame
		for _, line := range endless {
			line.(map[string]any)["retry"] = map[string]any{"deaths": -1}
		}
	}
	s.must("task", "submit", "-f", s.writeLines("endless.jsonl", endless))
	s.stream = startStream(s.fleet, seed, until)
	s.settle(nil)
	return s
}

// burst draws faults for a while, which overlap.
func (s *soak) burst() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	longest := max(2*burstMin, min(burstMax, *soakTime/4)) - burstMin
	end := time.Now().Add(burstMin + time.Duration(s.random.Int64N(int64(longest))))
	var next time.Time
	for now := time.Now(); now.Before(end); now = <-tick.C {
		s.tend(now)
		if now.After(next) {
			s.draw(now)
			next = now.Add(time.Duration(s.random.Int64N(int64(pauseMax))))
		}
	}
}

// settle ends the faults and waits until all nodes are there, every endless command runs and
// none moves, and the promised tasks of the stream are done.
func (s *soak) settle(promised []string) {
	s.t.Helper()
	s.calm()
	began := time.Now()
	var still stillness
	s.eventually(settleMax, func() string {
		s.tend(time.Now())
		if s.store.leader() < 0 {
			return "the members of the broker agree on a leader"
		}
		now := s.census.now()
		maps.DeleteFunc(now, func(task string, _ run) bool { return !isEndless(task) })
		lasted := still.lasted(now)
		if len(now) != soakEndless {
			return s.lostText(began, notRunning(now))
		}
		if lasted < quiet {
			return "nothing moves"
		}
		if left := s.ledger.missing(promised); len(left) > 0 {
			return s.lostText(began, left)
		}
		return s.missingNodes(soakNodes)
	})
	s.lost = nil // some may only have been late
}

func endlessTasks() []string {
	var list []string
	for i := range soakEndless {
		list = append(list, fmt.Sprintf("endless-%03d", i))
	}
	return list
}

// notRunning lists the endless tasks that do not run.
func notRunning(now map[string]run) []string {
	return slices.DeleteFunc(endlessTasks(), func(id string) bool { return now[id].id != "" })
}

// lostText names tasks, and adds all that is known about them shortly before the time is up.
func (s *soak) lostText(began time.Time, tasks []string) string {
	text := fmt.Sprintf("seed %d: %d tasks are neither done nor running: %v", s.seed, len(tasks), tasks[:min(len(tasks), 10)])
	if time.Since(began) < settleMax-soon {
		return text
	}
	s.lost = tasks
	for _, id := range tasks[:min(len(tasks), 3)] {
		out, errs, _ := s.call("task", "get", id, "-o", "json")
		text += "\n" + out + errs
	}
	return text
}

// audit compares the promised tasks of the stream with what the store and the commands have
// recorded.
func (s *soak) audit() {
	s.t.Helper()
	audited := map[string]bool{}
	for _, id := range s.stream.pending() {
		end := s.ledger.endedAt(id)
		if end.revision == 0 {
			continue // settle waits for those that were promised before the calm
		}
		m, err := s.marksOf(id)
		must(s.t, err)
		if m.ends[end.token] != 1 {
			s.t.Errorf("seed %d: task %s was completed by token %d, whose run reached its end %d times: %+v", s.seed, id, end.token, m.ends[end.token], m)
		}
		for token, n := range m.begins {
			if n > 1 || token > end.token {
				s.t.Errorf("seed %d: task %s was begun %d times by token %d, and completed by token %d", s.seed, id, n, token, end.token)
			}
		}
		s.again += len(m.ends) - 1
		must(s.t, os.Remove(s.path("marks", id)))
		for _, c := range s.citizens {
			_ = os.Remove(s.path("state", "windlass", "logs", c.name, id+".log")) // most have not run it
		}
		audited[id] = true
	}
	s.audited += len(audited)
	s.stream.forget(audited)
	_, _, doubled, failed := s.ledger.sums()
	for _, text := range doubled {
		s.t.Errorf("seed %d: completed twice: %s", s.seed, text)
	}
	for _, text := range failed {
		s.t.Errorf("seed %d: a state that nothing here leads to: %s", s.seed, text)
	}
}

// tidy limits what is kept of ended processes: their records and their output.
func (s *soak) tidy() {
	s.started = slices.DeleteFunc(s.started, func(p *process) bool { return !p.alive() })
	s.census.condense(isEndless)
	for _, c := range s.citizens {
		text := s.since(c, c.counted)
		c.counted += int64(len(text))
		s.fenced += bytes.Count(text, []byte("msg=fenced"))
		if c.counted > outputMax && !s.t.Failed() {
			must(s.t, os.Truncate(s.output(c), 0)) // what is appended goes on from there
			c.counted, c.began = 0, 0
		}
	}
	for i := range s.store.size() {
		if info, err := os.Stat(s.store.output(i)); err == nil && info.Size() > outputMax {
			must(s.t, os.Truncate(s.store.output(i), 0))
		}
	}
}

func (s *soak) grants() int {
	grants, _, _, _ := s.ledger.sums()
	return grants
}
