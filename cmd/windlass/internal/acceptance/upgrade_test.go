//go:build e2e && linux

package acceptance

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// earlierCommit is the one whose program runs beside the present one. It is to be moved on
// when the version of the layout rises: until then either reads what the other has written.
const earlierCommit = "1108d58ac4c2c9d1f1899fea527aae1c51c0d2c5"

// standing begins the IDs of tasks that one program leaves behind for the other.
const standing = "standing-"

// TestUpgrade_M06 takes a fleet from an earlier program to the present one and back, node
// by node, while commands stream in from both, and then lets a storm decide who runs what.
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
			s.endsCleanly(c.process)
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
	s      *soak
	id     func(name string) string
	listed string
	story  []entry
}

// leave puts tasks into the states that last.
func (s *soak) leave(round int) inheritance {
	s.t.Helper()
	i := inheritance{s: s, id: func(name string) string { return fmt.Sprintf("%s%d-%s", standing, round, name) }}
	s.must("task", "submit", i.id("paused"), "--", "sh", "-c", forever)
	s.must("task", "pause", i.id("paused"), "--wait")
	s.must("task", "submit", i.id("asleep"), "--", "sh", "-c", forever)
	s.must("task", "sleep", i.id("asleep"), "--for", "1h", "--wait")
	s.must("task", "submit", i.id("failed"), "--", "sh", "-c", "exit 3")
	s.becomes("failed", i.id("failed"))
	s.must("task", "submit", i.id("after"), "--needs", i.id("failed"), "--", "true")
	s.must("task", "submit", i.id("later"), "--not-before", "1h", "--", "true")
	i.listed, i.story = i.list(), i.history()
	return i
}

// takeUp finds everything as it was left, and goes on with it.
func (i inheritance) takeUp() {
	s := i.s
	s.t.Helper()
	if got := i.list(); got != i.listed {
		s.t.Errorf("there are %s, and were %s", got, i.listed)
	}
	if got := i.history(); !slices.Equal(got[:min(len(got), len(i.story))], i.story) { // others have claimed it since
		s.t.Errorf("what has happened is told as %v, and was as %v", got, i.story)
	}
	for _, name := range []string{"paused", "asleep"} {
		s.must("task", "run", i.id(name))
		s.becomes("running", i.id(name))
		s.must("task", "kill", i.id(name), "--wait")
		s.becomes("killed", i.id(name))
	}
	s.must("task", "submit", i.id("failed"), "--rerun", "--", "true")
	s.becomes("completed", i.id("failed"))
	s.becomes("completed", i.id("after"))
	s.must("task", "delete", i.id("later"))
}

// list names the tasks with their statuses.
func (i inheritance) list() string {
	i.s.t.Helper()
	var all []task
	if !i.s.list(&all, "task", "list", "--id-prefix", i.id("")) {
		i.s.t.Fatal("the broker is not there")
	}
	var text []string
	for _, t := range all {
		text = append(text, t.ID+" "+t.Status)
	}
	return strings.Join(text, ", ")
}

// history tells what has happened to the one that was paused.
func (i inheritance) history() []entry {
	i.s.t.Helper()
	var history struct {
		Entries []entry `json:"entries"`
	}
	i.s.eventually(soon, func() string { // it is written down a moment later
		out, errs, code := i.s.call("task", "history", i.id("paused"), "-o", "json") // there may be none yet
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
