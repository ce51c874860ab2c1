//go:build e2e && linux

package acceptance

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// walkEvery is the pause between two walks through the process table.
const walkEvery = 20 * time.Millisecond

// strangerAge is how long a process that is not ours is looked at again. A command that is
// being started still has its supervisor's environment.
const strangerAge = 2 * time.Second

// never is longer than all that is measured.
const never = time.Duration(math.MaxInt64)

// run is one run of a task, according to the environment of its processes.
type run struct {
	id, task, node string
	token          int64
	pid            int // of the first of its processes that was seen
	first, last    time.Time
}

// known is a process that was seen before.
type known struct {
	start uint64 // ticks since boot; with the pid it identifies the process
	since time.Time
	run   *run // nil while it is not known to be a command's
}

// census counts the commands of one world.
type census struct {
	marker []byte // what the environment of each process of the world contains
	stop   chan struct{}
	done   sync.WaitGroup

	mu       sync.Mutex
	known    map[int]*known
	runs     map[string]*run // every one ever seen, by ID
	alive    map[string]*run // after the last walk, by task
	overlaps []string
	bad      []string // tokens that did not rise, of runs that were condensed
	// closest is the shortest time from one run of a task to its next, over the
	// runs that were condensed: below zero they overlapped.
	closest  time.Duration
	observed int // hand-overs that closest is about
	walks    int
	gap      time.Duration // longest time between the beginnings of two walks
	walked   time.Time     // beginning of the last walk
}

// startCensus counts until the test ends, and then fails it for overlaps and
// for tokens that did not rise.
func startCensus(t *testing.T, marker string) *census {
	c := newCensus(marker)
	c.done.Go(c.loop)
	t.Cleanup(func() {
		close(c.stop)
		c.done.Wait()
		c.bad = append(c.bad, c.badTokens()...)
		t.Logf("census: %d walks, at most %v apart, %d runs of commands", c.walks, c.gap.Round(time.Millisecond), len(c.runs))
		for _, o := range c.overlaps {
			t.Errorf("two runs of one task at one moment: %s", o)
		}
		for _, text := range c.bad {
			t.Error(text)
		}
	})
	return c
}

func newCensus(marker string) *census {
	return &census{
		marker: []byte(marker), stop: make(chan struct{}), closest: never,
		known: map[int]*known{}, runs: map[string]*run{}, alive: map[string]*run{},
	}
}

func (c *census) loop() {
	tick := time.NewTicker(walkEvery)
	defer tick.Stop()
	for {
		c.walk()
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
	}
}

// walk looks at every process once.
func (c *census) walk() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.walked.IsZero() {
		c.gap = max(c.gap, now.Sub(c.walked))
	}
	c.walked = now
	c.walks++
	found := map[string]map[*run]int{} // task to run to one of its processes
	table := map[int]*known{}
	for _, pid := range pids() {
		k := c.look(pid, now)
		if k == nil {
			continue
		}
		table[pid] = k
		if k.run != nil {
			if found[k.run.task] == nil {
				found[k.run.task] = map[*run]int{}
			}
			found[k.run.task][k.run] = pid
			k.run.last = now
		}
	}
	c.known = table
	c.alive = map[string]*run{}
	for task, runs := range found {
		for r := range runs {
			if a := c.alive[task]; a == nil || r.token > a.token {
				c.alive[task] = r
			}
		}
		if len(runs) > 1 {
			c.confirm(runs)
		}
	}
}

// look finds out what a process is; nil if it is dead.
func (c *census) look(pid int, now time.Time) *known {
	k := c.known[pid]
	if k != nil && k.run == nil && now.Sub(k.since) > strangerAge {
		return k
	}
	start, ok := startOf(pid)
	if !ok {
		return nil
	}
	if k == nil || k.start != start {
		k = &known{start: start, since: now}
	}
	if k.run != nil {
		return k
	}
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // not ours if it cannot be read
	if !bytes.Contains(environ, c.marker) {
		return k
	}
	env := parseEnviron(environ)
	id := env["WINDLASS_RUN"]
	if id == "" || env["WINDLASS_TASK"] == "" {
		return k
	}
	if c.runs[id] == nil {
		token, _ := strconv.ParseInt(env["WINDLASS_TOKEN"], 10, 64) // zero shows as one that does not rise
		c.runs[id] = &run{id: id, task: env["WINDLASS_TASK"], node: env["WINDLASS_NODE"], token: token, pid: pid, first: now}
	}
	k.run = c.runs[id]
	return k
}

// confirm checks that runs seen by one walk did overlap. A walk takes time: the first run may
// have ended before the second began. If all are still alive after the walk, they overlap.
func (c *census) confirm(runs map[*run]int) {
	var texts []string
	for r, pid := range runs {
		if start, ok := startOf(pid); !ok || start != c.known[pid].start {
			continue
		}
		texts = append(texts, fmt.Sprintf("task %s run %s token %d on %s (process %d, seen since %s)",
			r.task, r.id, r.token, r.node, pid, r.first.Format("15:04:05.000")))
	}
	const shown = 20
	if len(texts) > 1 && len(c.overlaps) < shown {
		slices.Sort(texts)
		c.overlaps = append(c.overlaps, c.walked.Format("15:04:05.000 ")+strings.Join(texts, "; "))
	}
}

// badTokens lists the runs whose token is not above that of the task's run
// before. Runs of one claim, of a command that is restarted, share theirs.
func (c *census) badTokens() []string {
	var texts []string
	for task, runs := range c.history() {
		for i := 1; i < len(runs); i++ {
			if a, b := runs[i-1], runs[i]; b.token < a.token || b.token == a.token && b.node != a.node {
				texts = append(texts, fmt.Sprintf("task %s: token %d on %s, then %d on %s", task, a.token, a.node, b.token, b.node))
			}
		}
	}
	return texts
}

// history returns every run seen, by task and in order of their start.
func (c *census) history() map[string][]run {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string][]run{}
	for _, r := range c.runs {
		all[r.task] = append(all[r.task], *r)
	}
	for _, runs := range all {
		slices.SortFunc(runs, func(a, b run) int { return a.first.Compare(b.first) })
	}
	return all
}

// condense sums up the runs so far and forgets those that are over, except for the last run
// of each wanted task. Otherwise a census of hours would grow without limit.
func (c *census) condense(wanted func(task string) bool) {
	bad := c.badTokens()
	history := c.history()
	c.mu.Lock()
	defer c.mu.Unlock()
	const shown = 20
	c.bad = append(c.bad, bad[:min(len(bad), max(0, shown-len(c.bad)))]...)
	for task, runs := range history {
		for i := 1; i < len(runs); i++ {
			c.closest = min(c.closest, runs[i].first.Sub(runs[i-1].last))
			c.observed++
		}
		if c.alive[task] == nil && !wanted(task) {
			delete(c.runs, runs[len(runs)-1].id)
		}
		for _, r := range runs[:len(runs)-1] {
			delete(c.runs, r.id)
		}
	}
}

// now returns the live run of each task, found by a walk that begins after the call.
func (c *census) now() map[string]run {
	c.walk()
	c.mu.Lock()
	defer c.mu.Unlock()
	alive := make(map[string]run, len(c.alive))
	for task, r := range c.alive {
		alive[task] = *r
	}
	return alive
}

// byNode counts the runs that are alive.
func (c *census) byNode() map[string]int {
	counts := map[string]int{}
	for _, r := range c.now() {
		counts[r.node]++
	}
	return counts
}

func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		panic(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		panic(err)
	}
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// startOf returns when a process was started, and false if it is dead or a zombie.
func startOf(pid int) (uint64, bool) {
	fields := statOf(pid)
	const state, started = 0, 19
	if len(fields) <= started || fields[state] == "Z" || fields[state] == "X" {
		return 0, false
	}
	start, err := strconv.ParseUint(fields[started], 10, 64)
	return start, err == nil
}

// statOf returns the fields of a process's stat after its name; none if it is dead.
func statOf(pid int) []string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name stands in parentheses and may hold any character.
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

func parseEnviron(environ []byte) map[string]string {
	env := map[string]string{}
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if name, value, ok := strings.Cut(entry, "="); ok && env[name] == "" {
			env[name] = value
		}
	}
	return env
}
