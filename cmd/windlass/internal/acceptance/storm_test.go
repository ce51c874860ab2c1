//go:build e2e && linux

package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// citizen is a node of the soak: its current process and its current faults.
type citizen struct {
	name    string
	process *process
	began   int64  // where in its output the process began
	counted int64  // up to where its output was counted
	wanted  string // the program that it is to run, if it is not to be drawn

	stopping  bool // was told to end
	down      bool // has ended, as it should
	downUntil time.Time
	stopBy    time.Time

	frozen      bool
	frozenUntil time.Time
	cut         bool
	cutUntil    time.Time
}

// outputMax is how much of a process's output is kept from one cycle of the
// soak to the next.
const outputMax = 4 << 20

func (c *citizen) running() bool { return !c.down && c.process.alive() }

func (c *citizen) up() bool { return c.running() && !c.stopping && !c.frozen }

func (c *citizen) reachable() bool { return !c.cut }

func (s *soak) output(c *citizen) string { return s.path("out", c.name) }

func (s *soak) startCitizen(c *citizen) {
	s.t.Helper()
	c.began = 0
	if info, err := os.Stat(s.output(c)); err == nil {
		c.began = info.Size()
	}
	s.program[c.name] = c.wanted
	if programs := s.programs.Load(); c.wanted == "" && programs != nil {
		s.program[c.name] = (*programs)[s.random.IntN(len(*programs))]
	}
	c.process = s.launch(launch{name: c.name, argv: s.nodeCommand(c.name), output: s.output(c)})
	c.stopping, c.down, c.frozen = false, false, false
	s.nodes[c.name] = c.process
}

// tend carries out what is due, and looks after processes that have ended.
func (s *soak) tend(now time.Time) {
	for _, c := range s.citizens {
		if c.frozen && !now.Before(c.frozenUntil) {
			s.signal(c.process, syscall.SIGCONT)
			c.frozen = false
		}
		if c.cut && !now.Before(c.cutUntil) {
			s.net.heal(c.name)
			c.cut = false
		}
		if !c.down && !c.process.alive() {
			s.buried(c, now)
		}
		if c.stopping && !c.down && now.After(c.stopBy) {
			s.t.Errorf("node %s did not end on SIGTERM", c.name)
			s.kill(c.process)
		}
		if c.down && !now.Before(c.downUntil) {
			s.startCitizen(c)
		}
	}
	for i := range s.weather {
		w := &s.weather[i]
		if w.cut && !now.Before(w.cutUntil) {
			s.net.heal(memberName(i))
			w.cut = false
		}
		switch {
		case w.killed && !now.Before(w.until):
			s.store.start(i)
			w.killed = false
		case s.store.frozen(i) && !now.Before(w.until):
			s.store.thaw(i)
		case !w.killed && !s.store.alive(i):
			s.t.Errorf("%s member %d ended by itself", s.store.kind(), i)
			s.store.start(i)
		}
	}
}

// buried checks how a node's process ended. A node that could not join, because the session of
// its predecessor holds the name or the broker is unavailable, is started again, as by a
// supervisor. A node that is stopped before it has joined may not handle signals yet.
func (s *soak) buried(c *citizen, now time.Time) {
	code := c.process.cmd.ProcessState.ExitCode()
	text := s.since(c, c.began)
	joined := bytes.Contains(text, []byte("msg=joined"))
	beforeJoining := []int{exitConflict, exitUnavailable, exitInterrupted, exitSignalled}
	switch {
	case c.stopping && (code == 0 || !joined && slices.Contains(beforeJoining, code)):
	case !c.stopping && !joined && (code == exitUnavailable || code == exitConflict):
		s.refusals[code]++
		c.downUntil = now.Add(retryEvery)
	default:
		s.t.Errorf("node %s has exited with code %d (told to stop: %t):\n%s", c.name, code, c.stopping, tail(text))
	}
	c.down, c.stopping = true, false
}

// since returns a node's output from some byte on.
func (s *soak) since(c *citizen, from int64) []byte {
	f, err := os.Open(s.output(c))
	if err != nil {
		return nil // it has printed nothing yet
	}
	defer f.Close() // only read
	text, err := io.ReadAll(io.NewSectionReader(f, from, outputMax))
	if err != nil {
		s.t.Error(err)
	}
	return text
}

func tail(text []byte) []byte {
	const kept = 3000
	return text[max(0, len(text)-kept):]
}

// weather is the current faults of a member.
type weather struct {
	killed   bool
	until    time.Time
	cut      bool // off from the other members
	cutUntil time.Time
}

// storm is a kind of fault and how often it is drawn. hit returns false if there is no target.
type storm struct {
	kind   string
	weight int
	hit    func(s *soak, now time.Time) bool
}

var storms = []storm{
	{"node killed", 4, onNode((*citizen).running, (*soak).killNode)},
	{"node frozen", 4, onNode((*citizen).up, (*soak).freezeNode)},
	{"node stopped", 3, onNode((*citizen).up, (*soak).stopNode)},
	{"node's supervisor killed", 2, onNode((*citizen).up, (*soak).killSupervisor)},
	{"two of node, supervisor and guard killed", 3, onNode((*citizen).up, (*soak).killTogether)},
	{"network: silence", 2, cutNode(silence, false)},
	{"network: requests lost", 2, cutNode(requestsLost, false)},
	{"network: replies lost", 2, cutNode(repliesLost, false)},
	{"network: refused", 2, cutNode(refused, false)},
	{"network: some members silent", 2, cutNode(silence, true)},
	{"network: some members refused", 2, cutNode(refused, true)},
	{"member killed", 2, func(s *soak, now time.Time) bool { return s.hitMember(now, s.random.IntN(3), true) }},
	{"member frozen", 2, func(s *soak, now time.Time) bool { return s.hitMember(now, s.random.IntN(3), false) }},
	{"leader killed", 2, func(s *soak, now time.Time) bool { return s.hitMember(now, s.store.leader(), true) }},
	{"leader frozen", 2, func(s *soak, now time.Time) bool { return s.hitMember(now, s.store.leader(), false) }},
	{"member cut off from the others", 2, func(s *soak, now time.Time) bool { return s.cutMember(now, s.random.IntN(3), false) }},
	{"leader cut off from the others and frozen", 2, func(s *soak, now time.Time) bool { return s.cutMember(now, s.store.leader(), true) }},
	{"leader moved", 3, (*soak).moveLeader},
	{"all members killed", 1, func(s *soak, now time.Time) bool { return s.hitAll(now, true) }},
	{"all members frozen", 1, func(s *soak, now time.Time) bool { return s.hitAll(now, false) }},
}

// draw makes a fault, of a kind by weight.
func (s *soak) draw(now time.Time) {
	total := 0
	for _, f := range storms {
		total += f.weight
	}
	n := s.random.IntN(total)
	for _, f := range storms {
		if n -= f.weight; n < 0 {
			if f.hit(s, now) {
				s.injected[f.kind]++
			}
			return
		}
	}
}

// between draws a time, in TTLs.
func (s *soak) between(low, high float64) time.Duration {
	return time.Duration((low + (high-low)*s.random.Float64()) * float64(ttl))
}

// anyNode draws a node that fits, nil if there is none.
func (s *soak) anyNode(fits func(*citizen) bool) *citizen {
	list := slices.DeleteFunc(slices.Clone(s.citizens), func(c *citizen) bool { return !fits(c) })
	if len(list) == 0 {
		return nil
	}
	return list[s.random.IntN(len(list))]
}

// onNode is a fault of one node, drawn from those that fit.
func onNode(fits func(*citizen) bool, hit func(s *soak, c *citizen, now time.Time) bool) func(*soak, time.Time) bool {
	return func(s *soak, now time.Time) bool {
		c := s.anyNode(fits)
		return c != nil && hit(s, c, now)
	}
}

func (s *soak) killNode(c *citizen, now time.Time) bool {
	s.kill(c.process)
	c.down, c.frozen, c.stopping, c.downUntil = true, false, false, now.Add(s.between(0, 1.6))
	return true
}

func (s *soak) freezeNode(c *citizen, now time.Time) bool {
	s.signal(c.process, syscall.SIGSTOP)
	c.frozen, c.frozenUntil = true, now.Add(s.between(0.1, 3))
	return true
}

// stopLimit is how long a node may take to end on SIGTERM.
const stopLimit = 3 * ttl

func (s *soak) stopNode(c *citizen, now time.Time) bool {
	s.signal(c.process, syscall.SIGTERM)
	c.stopping, c.stopBy, c.downUntil = true, now.Add(stopLimit), now.Add(s.between(0, 0.6))
	return true
}

func (s *soak) killSupervisor(c *citizen, _ time.Time) bool {
	pid, _ := helpersOf(c.process.cmd.Process.Pid)
	return pid > 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// killTogether kills two of a node, its supervisor and their guard at the same moment. The one
// that is left ends the commands. If all three die nothing is promised.
func (s *soak) killTogether(c *citizen, now time.Time) bool {
	if bytes.Contains(s.since(c, c.began), []byte("commands have no control group")) {
		return false // where there are none less is promised
	}
	node := c.process.cmd.Process.Pid
	supervisor, guard := helpersOf(node)
	pids := []int{node, supervisor, guard}
	spared := s.random.IntN(len(pids))
	for i, pid := range pids {
		if i != spared && pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	if spared != 0 {
		s.kill(c.process) // and wait for it
		c.down, c.downUntil = true, now.Add(s.between(0, 1.6))
	}
	return true
}

// helpersOf returns the children of a node: the supervisor of its commands, and the guard of
// both, zero if there is none.
func helpersOf(node int) (supervisor, guard int) {
	for _, pid := range pids() {
		fields := statOf(pid)
		const parent = 1
		if len(fields) <= parent || fields[parent] != strconv.Itoa(node) {
			continue
		}
		if cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.HasPrefix(cmdline, []byte("guard-of-commands")) {
			guard = pid
		} else {
			supervisor = pid
		}
	}
	return supervisor, guard
}

// cutNode is a fault between a node and all members, or one or two of them.
func cutNode(f fault, partial bool) func(*soak, time.Time) bool {
	return onNode((*citizen).reachable, func(s *soak, c *citizen, now time.Time) bool {
		var members []int
		if partial {
			members = s.random.Perm(membersMax)[:1+s.random.IntN(membersMax-1)]
		}
		s.net.cut(c.name, f, members...)
		c.cut, c.cutUntil = true, now.Add(s.between(0.1, 3))
		return true
	})
}

func (s *soak) hitMember(now time.Time, i int, kill bool) bool {
	if i < 0 || !answers(s.store, i) {
		return false
	}
	w := &s.weather[i]
	w.until = now.Add(s.between(0.1, 1.6))
	if w.killed = kill; kill {
		s.store.kill(i)
	} else {
		s.store.freeze(i)
	}
	return true
}

// cutMember cuts one member off from the others, but not from nodes. If it is also frozen, it
// stays cut off for as long as it may believe afterwards that it leads.
func (s *soak) cutMember(now time.Time, i int, freeze bool) bool {
	if i < 0 || s.weather[i].cut || !answers(s.store, i) {
		return false
	}
	s.net.cut(memberName(i), silence)
	w := &s.weather[i]
	w.cut, w.cutUntil = true, now.Add(s.between(0.1, 1.6))
	if freeze {
		s.hitMember(now, i, false)
		w.cutUntil = w.until.Add(staleFor)
	}
	return true
}

func (s *soak) hitAll(now time.Time, kill bool) bool {
	for i := range s.store.size() {
		if !answers(s.store, i) {
			return false
		}
	}
	until := now.Add(s.between(0.1, 2.4))
	for i := range s.store.size() {
		s.hitMember(now, i, kill)
		s.weather[i].until = until
	}
	return true
}

// moveLeader may fail because of other faults; only successful moves count.
func (s *soak) moveLeader(time.Time) bool {
	from := s.store.leader()
	if from < 0 {
		return false
	}
	to := (from + 1 + s.random.IntN(2)) % 3
	return answers(s.store, to) && s.store.moveLeader(from, to) == nil
}

// calm ends all faults, and starts nodes and members that are down.
func (s *soak) calm() {
	now := time.Now()
	for _, c := range s.citizens {
		c.frozenUntil, c.cutUntil = now, now
		if c.downUntil.After(now) {
			c.downUntil = now
		}
	}
	for i := range s.weather {
		s.weather[i].until, s.weather[i].cutUntil = now, now
	}
	s.tend(now)
}
