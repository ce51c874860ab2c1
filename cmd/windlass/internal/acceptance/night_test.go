//go:build e2e && linux

package acceptance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// rehearsals are the situations of the page, by heading.
var rehearsals = map[string]func(*night){
	"Nothing runs":                    nightWithoutQuorum,
	"A leader is dead":                nightOfADeadLeader,
	"The network is split":            nightOfASplit,
	"Tasks stay pending":              nightOfPending,
	"Tasks fail":                      nightOfFailures,
	"A task fails again and again":    nightOfRetries,
	"Nodes die one after the other":   nightOfACulprit,
	"A node comes and goes":           nightOfAFlappingNode,
	"The lease margin is low":         nightOfSlowness,
	"The broker is full":              nightOfAFullBroker,
	"A deploy goes wrong":             nightOfADeploy,
	"A change of tasks goes wrong":    nightOfAChange,
	"A clock jumps":                   nightOfALeap,
	"The broker came out of a backup": nightOfARestore,
}

func nightWithoutQuorum(n *night) {
	r := newRoom(n.T, clusterConfig{}, "n1", "n2")
	const tasks = 4
	r.load(tasks)
	r.etcd.kill(0)
	r.etcd.kill(1)
	r.waitNone()
	n.types(r.world)
	r.etcd.start(0)
	n.types(r.world)
	n.types(r.world)
	r.waitAllRun(tasks)
	r.noneExited()
}

func nightOfADeadLeader(n *night) {
	f := newFleet(n.T)
	stands := func(name string) *process {
		return f.start(name, "elect", "reports", "--candidate", name, "--session-ttl", "5s", "--", "sleep", "1000000")
	}
	first := stands("c1")
	f.eventually(soon, func() string {
		if out := f.must("election", "list"); !strings.Contains(out, "c1") {
			return out
		}
		return ""
	})
	f.kill(first)
	n.types(f.world)
	n.types(f.world)
	n.types(f.world)
	stands("c2")
	n.types(f.world)
}

func nightOfASplit(n *night) {
	r := newRoom(n.T, clusterConfig{net: newNetwork(n.T)}, "n1", "n2")
	const tasks = 4
	r.load(tasks)
	before := r.incarnation("n1")
	leader, _ := r.etcd.waitLeader()
	minority := (leader + 1) % 3
	r.net.cut(memberName(minority), silence)
	r.net.cut("n1", silence)
	r.waitAllRun(tasks, "n1")
	n.types(r.world)
	n.types(r.world)
	r.net.heal(memberName(minority))
	r.net.heal("n1")
	r.waitReturn("n1", before)
	n.types(r.world)
	r.recovered(tasks)
}

func nightOfPending(n *night) {
	f := newFleet(n.T, "n1", "n2")
	f.must("node", "cordon", "n1", "n2", "--reason", "upgrade")
	f.must("task", "submit", "nightly", "--", "sleep", "1000000")
	f.must("task", "submit", "report", "--require", "disk=ssd", "--", "sleep", "1000000")
	n.types(f.world)
	n.types(f.world, "ID", "nightly")
	n.types(f.world, "NAME", "n1")
	n.types(f.world, "ID", "report")
	f.nodes["n3"] = f.launch(launch{name: "n3", argv: append(f.nodeCommand("n3"), "--label", "disk=ssd")})
	n.types(f.world)
}

// untilMended is a command that fails until a file is there.
func (w *world) untilMended(file string) string {
	return fmt.Sprintf(`[ -e %s ] || { echo connection refused >&2; exit 3; }; %s`, w.path(file), forever)
}

func nightOfFailures(n *night) {
	f := newFleet(n.T, "n1")
	var failing []any
	for i := range 3 {
		failing = append(failing, map[string]any{"id": fmt.Sprintf("import-%d", i+1), "type": "exec",
			"props": map[string]any{"command": []string{"sh", "-c", f.untilMended("mended")}}})
	}
	f.must("task", "submit", "-f", f.writeLines("failing.jsonl", failing))
	n.types(f.world)
	must(n.T, os.WriteFile(f.path("mended"), nil, 0o600))
	n.types(f.world, "TEXT", "connection refused")
	n.types(f.world, "TEXT", "connection refused")
	n.types(f.world)
}

func nightOfRetries(n *night) {
	f := newFleet(n.T, "n1")
	f.must("task", "submit", "nightly", "--retry-max", "1s", "--", "sh", "-c", "exit 3")
	n.types(f.world)
	n.types(f.world, "ID", "nightly")
	n.types(f.world, "ID", "nightly", "PROPS", `{"command":["sleep","1000000"],"restart":"on-failure"}`)
	n.types(f.world, "ID", "nightly")
	n.types(f.world, "ID", "nightly")
}

func nightOfACulprit(n *night) {
	f := newFleet(n.T)
	for _, name := range []string{"n1", "n2"} {
		f.supervised(name)
	}
	f.eventually(soon, func() string { return f.missingNodes(2) })
	const innocent = 4
	f.submit("t", innocent, forever)
	f.waitAllRun(innocent)
	f.must("task", "submit", "nightly", "--", "sh", "-c",
		fmt.Sprintf(`[ -e %s ] || kill -KILL "$(cat "%s/$WINDLASS_NODE.pid")"; %s`, f.path("mended"), f.dir, forever))
	n.types(f.world)
	n.types(f.world)
	must(n.T, os.WriteFile(f.path("mended"), nil, 0o600))
	n.types(f.world, "ID", "nightly")
	n.types(f.world, "ID", "nightly")
	f.waitAllRun(innocent + 1)
}

func nightOfAFlappingNode(n *night) {
	f := newFleet(n.T, "n1", "n2")
	const tasks, deaths = 4, 3
	pid := f.supervised("n3")
	f.submit("t", tasks, forever)
	for range deaths {
		f.eventually(soon, func() string { return f.missingNodes(3) })
		text, err := os.ReadFile(pid)
		must(n.T, err)
		before := f.incarnation("n3")
		must(n.T, exec.Command("kill", "-KILL", strings.TrimSpace(string(text))).Run())
		f.waitReturn("n3", before)
	}
	n.types(f.world)
	n.types(f.world)
	n.types(f.world)
	n.types(f.world, "NAME", "n3")
	n.types(f.world, "NAME", "n3")
	n.types(f.world)
}

func nightOfSlowness(n *night) {
	r, p := newPiped(n.T)
	for _, d := range []direction{toBroker, toNode} {
		p.set(d, shape{latency: 150 * time.Millisecond})
	}
	n.types(r.world)
	n.types(r.world, "NAME", "n1")
	for _, d := range []direction{toBroker, toNode} {
		p.set(d, shape{})
	}
	n.types(r.world, "NAME", "n1")
	n.types(r.world)
	r.waitAllRun(pipedTasks)
}

func nightOfAFullBroker(n *night) {
	r := newRoom(n.T, clusterConfig{members: 1, quotaBytes: quotaBytes}, "n1", "n2")
	const endless, ended = 4, 40
	r.load(endless)
	var padded []any
	for i := range ended {
		padded = append(padded, map[string]any{"id": fmt.Sprintf("ended%02d", i), "type": "exec", "props": map[string]any{
			"command": []string{"true"}, "env": map[string]string{"PADDING": strings.Repeat("x", 100<<10)}}})
	}
	r.must("task", "submit", "-f", r.writeLines("ended.jsonl", padded))
	r.waitCompleted(patience, ended)
	client := r.etcd.client()
	defer func() { must(n.T, client.Close()) }()
	before := r.census.now()
	fill(n.Context(), n.T, client)
	n.types(r.world)
	n.types(r.world, "AGE", "1ms") // all are older, however quickly the broker was filled
	n.types(r.world)
	n.types(r.world)
	r.must("task", "submit", "accepted", "--", "true")
	r.waitCompleted(soon, 1)
	r.undisturbed(quiet, before)
}

func nightOfADeploy(n *night) {
	next := filepath.Join(n.TempDir(), "windlass")
	build := exec.Command("go", "build", "-o", next, "-ldflags", "-X github.com/windlass-go/windlass/internal/stamp.Version=v0.0.0-next", "github.com/windlass-go/windlass/cmd/windlass")
	if out, err := build.CombinedOutput(); err != nil {
		n.Fatalf("build: %v: %s", err, out)
	}
	f := newFleet(n.T)
	f.startNode("n1")
	f.program = map[string]string{"n2": next}
	f.startNode("n2", "true") // it forgets what the tasks run
	f.eventually(soon, func() string { return f.missingNodes(2) })
	const tasks = 4
	f.submit("t", tasks, forever)
	f.waitAllRun(tasks)
	n.types(f.world)
	n.types(f.world, "NAME", "n2")
	n.types(f.world, "NAME", "n2")
	f.endsCleanly(f.nodes["n2"])
	delete(f.program, "n2")
	f.startNode("n2")
	n.types(f.world, "NAME", "n2")
	n.types(f.world, "NAME", "n2")
	f.untilNoMore("different versions")
}

func nightOfAChange(n *night) {
	f := newFleet(n.T, "n1")
	const tasks = 4
	before := f.writeLines("before.jsonl", f.commands("t", tasks, forever))
	changed := f.commands("t", tasks, "exit 3")
	for _, task := range changed {
		task.(map[string]any)["props"].(map[string]any)["restart"] = "never"
	}
	changed[0] = f.commands("t", 1, forever+" # changed")[0]
	f.must("task", "apply", "-f", before, "--yes")
	f.waitAllRun(tasks)
	f.must("task", "apply", "-f", f.writeLines("changed.jsonl", changed), "--yes")
	n.types(f.world)
	n.types(f.world, "ID", "t002")
	n.types(f.world, "FILE", before)
	n.types(f.world, "FILE", before)
	n.types(f.world)
}

func nightOfALeap(n *night) {
	f := newFleet(n.T, "n1", "n2")
	const tasks = 4
	f.submit("t", tasks, forever)
	f.waitAllRun(tasks)
	f.waitQuiet(tasks)
	before := f.incarnation("n1")
	leapt := f.leap(f.nodes["n1"], time.Hour)
	f.goneInTime("a leap of the clock", leapt, f.waitNoneOf("n1"))
	f.waitReturn("n1", before)
	f.logs(f.nodes["n1"], "the session was lost: it could not be renewed in time")
	f.until(patience, "n1 runs something again", func() bool { return f.census.byNode()["n1"] > 0 })
	n.types(f.world)
	n.types(f.world, "NAME", "n1")
	f.endsCleanly(f.nodes["n1"])
	f.startNode("n1")
	n.types(f.world, "NAME", "n1")
	f.untilNoMore("in the future")
	f.waitAllRun(tasks)
}

// untilNoMore waits until the doctor reports something no more.
func (f *fleet) untilNoMore(finding string) {
	f.t.Helper()
	f.eventually(patience, func() string {
		if report, _ := f.shell("windlass doctor"); strings.Contains(report, finding) {
			return report
		}
		return ""
	})
}

// etcdTools builds etcdctl and etcdutl, and returns their folder.
func etcdTools(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-C", "../../../../tools/etcd", "-o", dir+"/", "go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdutl/v3")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return dir
}

func nightOfARestore(n *night) {
	tools := etcdTools(n.T)
	r := newRoom(n.T, clusterConfig{members: 1}, "n1", "n2")
	r.env = append(r.env, "PATH="+tools+":"+os.Getenv("PATH"), "ETCDCTL_ENDPOINTS="+r.etcd.members[0].config.Client)
	const tasks = 4
	r.load(tasks)
	if out, code := r.shell("etcdctl snapshot save backup.db"); code != 0 {
		n.Fatal(out)
	}
	r.must("task", "submit", "later", "--", "true")
	r.waitCompleted(soon, 1)
	r.must("task", "kill", "t000", "--wait")
	var old []task
	r.list(&old, "task", "list", "--status", "running")
	for _, p := range r.nodes {
		r.endsCleanly(p)
	}
	m := r.etcd.members[0]
	r.etcd.kill(0)
	must(n.T, os.RemoveAll(m.config.Dir))
	n.types(r.world, "DATA", m.config.Dir, "NAME", m.config.Name, "PEER", "http://"+m.config.Peer)
	r.etcd.start(0)
	for name := range r.nodes {
		r.startNode(name)
	}
	n.types(r.world)
	n.types(r.world)
	r.recovered(tasks)
	var now []task
	r.list(&now, "task", "list", "--status", "running")
	for _, t := range now {
		for _, o := range old {
			if t.Token <= o.Token {
				n.Errorf("task %s has the token %d, and %s had %d before the restore", t.ID, t.Token, o.ID, o.Token)
			}
		}
	}
}
