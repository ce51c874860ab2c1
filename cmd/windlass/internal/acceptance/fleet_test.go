//go:build e2e && linux

package acceptance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// ttl is the session TTL of the nodes here, the shortest that is allowed.
const ttl = 5 * time.Second

// Sizes of the fleet. A node's fair share is a third, give or take a fifth. Package placement
// tests how even the spread gets.
const (
	fleetNodes = 3
	fleetTasks = 300
	shareMin   = 80
	shareMax   = 120
)

// forever is a command that does not end by itself, for a shell.
const forever = "exec sleep 1000000"

// stubborn is a command that ends only by SIGKILL.
const stubborn = `trap "" TERM; while :; do sleep 1000000; done`

// detaching leaves processes behind, in other sessions and ignoring signals.
const detaching = `(setsid sleep 1000000 &); (trap "" TERM HUP; setsid sleep 1000000) & exec sleep 1000000`

// fleet is a broker of its own, some nodes, and many tasks that do not end.
type fleet struct {
	*world
	broker   *process  // an embedded one, or nil
	ensemble *ensemble // a ZooKeeper, or nil
	nodes    map[string]*process
	net      *network      // that the nodes are in, or nil
	ttl      time.Duration // of the nodes' sessions, if it is another
	// program is that of the nodes that do not run the present one.
	program map[string]string
	// address is that of the broker for the nodes that have one of their own.
	address map[string]string
}

func fleetOf(w *world) *fleet { return &fleet{world: w, nodes: map[string]*process{}} }

// newFleet starts a broker and nodes that run everything.
func newFleet(t *testing.T, nodes ...string) *fleet {
	t.Helper()
	f := fleetOf(newWorld(t))
	if onZooKeeper(t) {
		f.ensemble = startEnsemble(f.world, nil)
		f.env = append(f.env, "WINDLASS_BROKER="+f.ensemble.address())
	} else {
		f.env = append(f.env, "WINDLASS_BROKER="+f.path("data"))
		f.startBroker()
	}
	f.eventually(soon, func() string { return f.missingNodes(0) })
	for _, name := range nodes {
		f.startNode(name)
	}
	f.eventually(soon, func() string { return f.missingNodes(len(nodes)) })
	return f
}

// loadedFleet starts three nodes that run 300 tasks, evenly spread. How many tasks started
// twice while the nodes settled depends on the load of the machine. The census checks that
// none ran twice at once.
func loadedFleet(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, "n1", "n2", "n3")
	began := time.Now()
	f.submit("t", fleetTasks, forever)
	f.took("300 submitted tasks run", began, f.waitAllRun(fleetTasks))
	f.waitEven()
	t.Logf("%d tasks were started more than once", len(f.startedAgain()))
	return f
}

// startedAgain lists the tasks that were started more than once.
func (f *fleet) startedAgain() []string {
	f.t.Helper()
	var again []string
	for id, runs := range f.census.history() {
		if len(runs) > 1 {
			again = append(again, id)
		}
	}
	f.t.Logf("measured: %d tasks were started more than once so far", len(again))
	return again
}

// commands returns tasks that run a command, under the lock of its task.
func (w *world) commands(prefix string, n int, script string) []any {
	var lines []any
	for i := range n {
		lines = append(lines, map[string]any{
			"id": fmt.Sprintf("%s%03d", prefix, i), "type": "exec", "props": map[string]any{"command": w.locked(script)},
		})
	}
	return lines
}

func (f *fleet) startBroker() {
	f.t.Helper()
	f.broker = f.start(brokerName, "dev", "--nodes", "0", "--data", f.path("data"))
}

func (f *fleet) startNode(name string, allow ...string) {
	f.t.Helper()
	f.nodes[name] = f.launch(launch{name: name, argv: f.nodeCommand(name, allow...)})
}

// nodeCommand returns the command line of a node. Without names it may run every command.
func (f *fleet) nodeCommand(name string, allow ...string) []string {
	argv := []string{cmp.Or(f.program[name], program), "node", "--name", name, "--session-ttl", cmp.Or(f.ttl, ttl).String()}
	if len(allow) == 0 {
		allow = []string{"*"}
	}
	for _, a := range allow {
		argv = append(argv, "--exec-allow", a)
	}
	if address := f.address[name]; address != "" {
		argv = append(argv, "--broker", address)
	}
	if f.net != nil {
		argv = on(f.net.space(name), argv...)
	}
	return argv
}

// waitAllRun waits until so many tasks run on nodes other than those that went.
func (f *fleet) waitAllRun(want int, went ...string) time.Time {
	f.t.Helper()
	return f.eventually(patience, func() string {
		running := 0
		for _, r := range f.census.now() {
			if !slices.Contains(went, r.node) {
				running++
			}
		}
		return missing(running, want, "tasks run")
	})
}

// waitEven waits until each node runs its share, and the node list says so.
func (f *fleet) waitEven() time.Time {
	f.t.Helper()
	return f.eventually(patience, func() string {
		counts := f.census.byNode()
		var nodes []node
		f.list(&nodes, "node", "list")
		listed := map[string]int{}
		for _, n := range nodes {
			listed[n.Name] = n.Tasks
			if n.Tasks < shareMin || n.Tasks > shareMax {
				return fmt.Sprintf("node %s holds %d tasks; %v run", n.Name, n.Tasks, counts)
			}
		}
		if len(counts) != fleetNodes || !maps.Equal(counts, listed) {
			return fmt.Sprintf("%v run, and listed are %v", counts, listed)
		}
		return ""
	})
}

// waitNoneOf waits until no command of a node is alive.
func (f *fleet) waitNoneOf(name string) time.Time {
	f.t.Helper()
	return f.eventually(patience, func() string {
		return missing(f.census.byNode()[name], 0, "commands of "+name+" may be alive")
	})
}

// incarnation returns that of a node from the node list, empty if it is not there.
func (f *fleet) incarnation(name string) string {
	f.t.Helper()
	var nodes []node
	f.list(&nodes, "node", "list")
	for _, n := range nodes {
		if n.Name == name {
			return n.Incarnation
		}
	}
	return ""
}

// waitReturn waits until a node is back as another incarnation.
func (f *fleet) waitReturn(name, before string) time.Time {
	f.t.Helper()
	return f.until(patience, name+" is back as another incarnation", func() bool {
		now := f.incarnation(name)
		return now != "" && now != before
	})
}

// noneLost checks that the list has each task once, as running.
func (f *fleet) noneLost(want int) {
	f.t.Helper()
	f.eventually(patience, func() string {
		var tasks []task
		f.list(&tasks, "task", "list", "--status", "running")
		return missing(len(tasks), want, "tasks are listed as running")
	})
}

// noneExited checks that the processes of the nodes are alive.
func (f *fleet) noneExited() {
	f.t.Helper()
	for name, p := range f.nodes {
		if !p.alive() {
			f.t.Errorf("the process of node %s has exited: %v", name, p.cmd.ProcessState)
		}
	}
}
