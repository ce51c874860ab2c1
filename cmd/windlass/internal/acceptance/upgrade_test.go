//go:build e2e && linux

package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// earlierCommit is the commit of the other program. It must be updated when the version of the
// layout rises: until then each program reads what the other writes.
const earlierCommit = "1108d58ac4c2c9d1f1899fea527aae1c51c0d2c5"

// standing begins the IDs of tasks that one program leaves behind for the other.
const standing = "standing-"

// A fleet is upgraded from an earlier program to the present one and back, node by node, while
// both submit commands. Then nodes of both programs run under random faults.
func TestUpgrade_M06_M11_M14_AnEarlierProgramAndThisOneWorkTogether(t *testing.T) {
	earlier := buildEarlier(t)
	s := newSoak(t, onEtcd, time.Now().Add(24*time.Hour), earlier)
	for round, to := range []string{program, earlier} {
		from := map[string]string{program: earlier, earlier: program}[to]
		began := time.Now()
		s.use(from)
		left := s.leave(round)
		s.use(from, to)
		for _, c := range s.citizens {
			s.stops(c, from == earlier)
			c.wanted = to
			s.startCitizen(c)
			s.eventually(soon, func() string { return s.missingNodes(soakNodes) })
		}
		s.took(fmt.Sprintf("round %d: every node was replaced", round), began, time.Now())
		s.settle(s.stream.pending())
		s.audit()
		s.use(to)
		left.takeUp()
	}
	for _, c := range s.citizens {
		c.wanted = ""
	}
	s.use(program, earlier)
	promised := s.stream.pending()
	s.burst()
	s.settle(promised)
	s.finish("lease") // the earlier program left one for each command, for a week
	t.Logf("both programs:\n\n%s", s.report())
}

// stops stops a node as an operator does. The earlier program waits for its commands no longer
// than the session's grace, which is too short on a slow machine.
func (s *soak) stops(c *citizen, earlier bool) {
	s.t.Helper()
	if !earlier {
		s.endsCleanly(c.process)
		return
	}
	s.signal(c.process, syscall.SIGTERM)
	s.until(soon, c.name+" has ended", func() bool { return !c.process.alive() })
	if code := c.process.cmd.ProcessState.ExitCode(); code != 0 {
		s.t.Logf("the earlier program of %s ended with exit code %d", c.name, code)
		if code != exitFailed || !bytes.Contains(s.since(c, c.began), []byte("did not return in time")) {
			s.t.Errorf("%s", tail(s.since(c, c.began)))
		}
	}
}

// buildEarlier builds the program of the earlier commit, from the history of this
// repository.
func buildEarlier(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	repository := filepath.Join("..", "..", "..", "..")
	if out, err := exec.Command("git", "-C", repository, "rev-parse", "--is-shallow-repository").CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "false" {
		t.Skipf("needs the history of the repository: %s", out)
	}
	archive := filepath.Join(dir, "source.tar")
	source, built := filepath.Join(dir, "source"), filepath.Join(dir, "windlass")
	for _, command := range [][]string{
		{"git", "-C", repository, "archive", "--output", archive, earlierCommit}, {"mkdir", source}, {"tar", "-x", "-f", archive, "-C", source},
		{"go", "build", "-C", source, "-buildvcs=false", "-o", built, "./cmd/windlass"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
		}
	}
	return built
}

// entry is a line of a task's history.
type entry struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	Node  string    `json:"node"`
}

// inheritance is what one program has left in the store.
type inheritance struct {
	*soak
	prefix string
	listed string
	story  []entry
}

func (i inheritance) id(name string) string { return i.prefix + name }

// leave puts tasks into lasting states.
func (s *soak) leave(round int) inheritance {
	s.t.Helper()
	i := inheritance{soak: s, prefix: fmt.Sprintf("%s%d-", standing, round)}
	s.must("task", "submit", i.id("paused"), "--", "sh", "-c", forever)
	s.must("task", "pause", i.id("paused"), "--wait")
	s.must("task", "submit", i.id("asleep"), "--", "sh", "-c", forever)
	s.must("task", "sleep", i.id("asleep"), "--for", "1h", "--wait")
	s.must("task", "submit", i.id("failed"), "--", "sh", "-c", "exit 3")
	s.becomes("failed", i.id("failed"))
	s.must("task", "submit", i.id("after"), "--needs", i.id("failed"), "--", "true")
	s.must("task", "submit", i.id("later"), "--not-before", "1h", "--", "true")
	i.listed, i.story = i.statuses(), i.history()
	return i
}

// takeUp checks that everything is as it was left, and continues with it.
func (i inheritance) takeUp() {
	i.t.Helper()
	if got := i.statuses(); got != i.listed {
		i.t.Errorf("there are %s, and were %s", got, i.listed)
	}
	if got := i.history(); !slices.Equal(got[:min(len(got), len(i.story))], i.story) { // others have claimed it since
		i.t.Errorf("what has happened is told as %v, and was as %v", got, i.story)
	}
	for _, name := range []string{"paused", "asleep"} {
		i.must("task", "run", i.id(name))
		i.becomes("running", i.id(name))
		i.must("task", "kill", i.id(name), "--wait")
		i.becomes("killed", i.id(name))
	}
	i.must("task", "submit", i.id("failed"), "--rerun", "--", "true")
	i.becomes("completed", i.id("failed"))
	i.becomes("completed", i.id("after"))
	i.must("task", "delete", i.id("later"))
}

// statuses lists the tasks with their statuses.
func (i inheritance) statuses() string {
	i.t.Helper()
	var all []task
	if !i.list(&all, "task", "list", "--id-prefix", i.prefix) {
		i.t.Fatal("the broker is not there")
	}
	var text []string
	for _, t := range all {
		text = append(text, t.ID+" "+t.Status)
	}
	return strings.Join(text, ", ")
}

// history returns the history of the task that was paused.
func (i inheritance) history() []entry {
	i.t.Helper()
	var history struct {
		Entries []entry `json:"entries"`
	}
	i.eventually(soon, func() string { // it is written a moment later
		out, errs, code := i.call("task", "history", i.id("paused"), "-o", "json") // there may be none yet
		if code == 0 && json.Unmarshal([]byte(out), &history) == nil && len(history.Entries) >= 3 {
			return ""
		}
		return "a claim, a command and a state that are written down, there is " + out + errs
	})
	return history.Entries
}

// becomes waits until a task has a status.
func (s *soak) becomes(status, id string) {
	s.t.Helper()
	s.must("task", "wait", id, "--for", status, "--timeout", "1m")
}
