//go:build e2e && linux

package acceptance

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// zooKeeperTests begins the names of the tests whose fleets are on ZooKeeper.
const zooKeeperTests = "TestZooKeeper"

// onZooKeeper reports whether a test's fleet is on ZooKeeper. The name decides, so that the
// same test runs on both brokers.
func onZooKeeper(t *testing.T) bool { return strings.HasPrefix(t.Name(), zooKeeperTests) }

// ensemble is three ZooKeeper servers, as a quorum.
type ensemble struct {
	w *world
	*zktest.Ensemble
	cold [3]bool // frozen, by member
}

func startEnsemble(w *world, net *network) *ensemble {
	w.t.Helper()
	options := zktest.Options{Tick: time.Second, MessageBytesMax: 1 << 20}
	if net != nil {
		for i := range membersMax {
			name := memberName(i)
			options.Hosts = append(options.Hosts, zktest.Host{Address: net.at(name).String(), Command: on(net.space(name))})
		}
	}
	return &ensemble{w: w, Ensemble: zktest.StartEnsemble(w.t, options)}
}

func (e *ensemble) kind() string { return "ZooKeeper" }

func (e *ensemble) address() string {
	return "zookeeper://" + strings.Join(e.Addresses(), ",") + "/acceptance?tick_time=1s"
}

func (e *ensemble) size() int { return len(e.Members) }

func (e *ensemble) start(i int) {
	e.w.t.Helper()
	must(e.w.t, e.Members[i].Run())
	e.cold[i] = false
}

func (e *ensemble) kill(i int) time.Time {
	at := time.Now()
	e.Members[i].Kill()
	e.cold[i] = false
	return at
}

func (e *ensemble) freeze(i int) time.Time {
	e.w.t.Helper()
	must(e.w.t, e.Members[i].Freeze())
	e.cold[i] = true
	return time.Now()
}

func (e *ensemble) thaw(i int) time.Time {
	e.w.t.Helper()
	must(e.w.t, e.Members[i].Thaw())
	e.cold[i] = false
	return time.Now()
}

func (e *ensemble) alive(i int) bool { return e.Members[i].Alive() }

func (e *ensemble) frozen(i int) bool { return e.cold[i] }

func (e *ensemble) leader() int {
	leader := -1
	for i, m := range e.Members {
		if !answers(e, i) {
			continue
		}
		switch m.Mode(e.w.t.Context()) {
		case "leader":
			leader = i
		case "":
			return -1
		}
	}
	return leader
}

// moveLeader cannot be asked of ZooKeeper.
func (e *ensemble) moveLeader(int, int) error { return errors.ErrUnsupported }

func (e *ensemble) output(i int) string { return e.Members[i].Log() }

// follow watches as nodes do. ZooKeeper keeps no history for clients, and ours ends where a
// connection was lost.
func (e *ensemble) follow(ctx context.Context, prefix string) func(func([]put)) error {
	e.w.t.Helper()
	store, err := e.open(ctx)
	must(e.w.t, err)
	e.w.t.Cleanup(func() { must(e.w.t, store.Close()) })
	_, revision, err := broker.Collect(ctx, store, prefix)
	must(e.w.t, err)
	return func(book func([]put)) error {
		again := time.NewTicker(pollEvery)
		defer again.Stop()
		for gap := false; ctx.Err() == nil; <-again.C {
			if gap {
				kvs, listed, err := broker.Collect(ctx, store, prefix)
				if err != nil {
					continue
				}
				book(puts(kvs...))
				revision = listed
			}
			for batch, err := range store.Watch(ctx, prefix, revision+1) {
				if gap = errors.Is(err, broker.ErrCompacted); err != nil {
					break // it is followed again from there
				}
				for _, event := range batch.Events {
					if !event.Deleted {
						book(puts(event.KV))
					}
				}
				revision = batch.Revision
			}
		}
		return ctx.Err()
	}
}

func (e *ensemble) open(ctx context.Context) (*zookeeper.Broker, error) {
	return zookeeper.Open(ctx, zookeeper.Config{Servers: e.Addresses(), Chroot: "/acceptance", TickTime: time.Second, DialTimeout: soon})
}

func (e *ensemble) left(ctx context.Context, prefix string) (left []string, err error) {
	store, err := e.open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close() // only read
	kvs, _, err := broker.Collect(ctx, store, prefix)
	for _, kv := range kvs {
		left = append(left, kv.Key)
	}
	return left, err
}

func puts(kvs ...broker.KV) []put {
	var list []put
	for _, kv := range kvs {
		list = append(list, put{kv.Key, kv.Value, int64(kv.Created), int64(kv.Modified)})
	}
	return list
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

// Two leaders of the ensemble die while tasks run. No task is interrupted, and tasks submitted
// meanwhile run.
func TestZooKeeper_M14_ALeaderThatDiesEndsNoTask(t *testing.T) {
	f := loadedFleet(t)
	before := f.census.now()
	for round, id := range []string{"during-1", "during-2"} {
		leader := f.ensemble.Leader(t.Context())
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
	f.mostRanOn(before)
	f.noneExited()
}

func TestZooKeeperSoak_M11_M14_NothingIsLostOrRunsTwiceThroughARandomStorm(t *testing.T) {
	runSoak(t, func(w *world, net *network) quorum { return startEnsemble(w, net) })
}
