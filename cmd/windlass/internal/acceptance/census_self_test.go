//go:build e2e && linux

package acceptance

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// pretend starts a process that looks like a run of a task.
func pretend(t *testing.T, marker, task, id, token string) {
	t.Helper()
	cmd := exec.Command("sleep", "1000000")
	cmd.Env = []string{marker, "WINDLASS_TASK=" + task, "WINDLASS_RUN=" + id, "WINDLASS_TOKEN=" + token, "WINDLASS_NODE=" + id}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
}

func TestCensus_KeepsItsFindingsWhenItForgets(t *testing.T) {
	c := newCensus("")
	at := time.Now()
	for i, r := range []run{
		{id: "1", task: "a", token: 1, node: "n1"}, {id: "2", task: "a", token: 2, node: "n2"},
		{id: "3", task: "b", token: 4, node: "n1"}, {id: "4", task: "b", token: 4, node: "n2"},
		{id: "5", task: "c", token: 5, node: "n1"},
	} {
		r.first = at.Add(time.Duration(i) * time.Second)
		r.last = r.first.Add(900 * time.Millisecond)
		c.runs[r.id] = &r
	}
	c.condense(func(task string) bool { return task == "a" })
	if c.closest != 100*time.Millisecond || c.observed != 2 {
		t.Errorf("the closest of %d hand-overs is %v", c.observed, c.closest)
	}
	if len(c.bad) != 1 || !strings.Contains(c.bad[0], "task b") {
		t.Errorf("bad tokens %q, want those of b", c.bad)
	}
	if len(c.runs) != 1 || c.runs["2"] == nil {
		t.Errorf("%v are kept, want the last of a", c.runs)
	}
}

// The census must be able to fail.
func TestCensus_SeesTwoRunsOfOneTaskAndTokensThatDoNotRise(t *testing.T) {
	marker := "TMPDIR=" + t.TempDir()
	c := newCensus(marker)
	see := func(task, id string) {
		t.Helper()
		for end := time.Now().Add(soon); c.now()[task].id != id; {
			if time.Now().After(end) {
				t.Fatalf("run %s of task %s was not seen", id, task)
			}
		}
	}
	pretend(t, marker, "once", "run-0", "5")
	see("once", "run-0")
	pretend(t, marker, "twice", "run-1", "7")
	see("twice", "run-1")
	if len(c.overlaps) > 0 {
		t.Errorf("overlaps %q, want none so far", c.overlaps)
	}
	pretend(t, marker, "twice", "run-2", "7")
	for end := time.Now().Add(soon); len(c.overlaps) == 0 && time.Now().Before(end); {
		c.walk()
	}
	if len(c.overlaps) == 0 || !strings.Contains(c.overlaps[0], "run-1") || !strings.Contains(c.overlaps[0], "run-2") {
		t.Errorf("overlaps %q, want run-1 beside run-2", c.overlaps)
	}
	if bad := c.badTokens(); len(bad) != 1 || !strings.Contains(bad[0], "twice") {
		t.Errorf("bad tokens %q, want those of twice", bad)
	}
}
