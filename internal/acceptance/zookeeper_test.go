//go:build linux

package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// zooKeeperTests begins the names of the tests whose fleets are on ZooKeeper.
const zooKeeperTests = "TestZooKeeper"

// onZooKeeper tells whether a test's fleet is on ZooKeeper. It goes by the name, so that
// a test of a fleet is the same one on either broker.
func onZooKeeper(t *testing.T) bool { return strings.HasPrefix(t.Name(), zooKeeperTests) }

// ensemble is three ZooKeeper servers.
type ensemble struct{ *zktest.Ensemble }

func startEnsemble(t *testing.T) ensemble {
	t.Helper()
	return ensemble{zktest.StartEnsemble(t, zktest.Options{Tick: time.Second, MessageBytesMax: 1 << 20})}
}

func (e ensemble) address() string {
	return "zookeeper://" + strings.Join(e.Addresses(), ",") + "/acceptance?tick_time=1s"
}

func TestZooKeeper_M11_M14_M16_WhatHoldsOfAFleetHoldsThere(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"a node is killed":     TestNodes_TasksOfAKilledNodeRunElsewhereOnceItsCommandsAreGone,
		"a node is terminated": TestNodes_ATerminatedNodeEndsItsCommandsAndHandsItsTasksOver,
		"a node is frozen":     TestNodes_AFrozenNodeLosesItsTasksAndComesBackAsAnotherIncarnation,
	} {
		t.Run(name, test)
	}
}

// The leader of the ensemble dies, and then another one, while tasks run: none of them
// is interrupted, and what is submitted meanwhile runs.
func TestZooKeeper_M14_ALeaderThatDiesEndsNoTask(t *testing.T) {
	w := newWorld(t)
	e := startEnsemble(t)
	w.env = append(w.env, "WINDLASS_BROKER="+e.address())
	f := &fleet{world: w, nodes: map[string]*process{}}
	for _, name := range []string{"n1", "n2", "n3"} {
		f.startNode(name)
	}
	f.eventually(soon, func() string { return f.missingNodes(fleetNodes) })
	f.must("task", "submit", "-f", f.writeLines("tasks.jsonl", commands("t", fleetTasks, forever)))
	f.waitAllRun(fleetTasks)
	f.waitEven()
	before := f.census.now()
	for round, id := range []string{"during-1", "during-2"} {
		leader := e.Leader(t.Context())
		if leader == nil {
			t.Fatal("there is no leader")
		}
		killed := time.Now()
		leader.Kill()
		must(t, f.submitUntilAccepted(id))
		f.took("SIGKILL of the leader until a task is accepted", killed, time.Now())
		f.waitAllRun(fleetTasks + round + 1)
		must(t, leader.Run())
		must(t, leader.Wait())
	}
	same := 0
	for id, r := range f.census.now() {
		if r.pid == before[id].pid && r.id == before[id].id {
			same++
		}
	}
	t.Logf("measured: %d of %d commands ran on as the same process", same, fleetTasks)
	if same < fleetTasks*9/10 {
		t.Errorf("only %d of %d commands ran on", same, fleetTasks)
	}
	f.noneExited()
}
