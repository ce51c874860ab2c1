//go:build e2e && linux

package acceptance

import (
	"testing"
	"time"
)

// memberTasks is how many tasks run while members of the broker fail.
const memberTasks = 60

// longEnough is how long a fault lasts that would end sessions if renewals did
// not get through: longer than until commands are told to stop.
const longEnough = ttl * 4 / 5

func TestBroker_M14_AMemberThatDiesOrFreezesOrLeadsNoMoreEndsNoTask(t *testing.T) {
	r := newRoom(t, clusterConfig{}, "n1", "n2", "n3")
	r.load(memberTasks)
	for _, f := range []struct {
		name string
		hit  func() (heal func())
	}{
		{"a follower is killed", func() func() {
			leader, _ := r.etcd.waitLeader()
			follower := (leader + 1) % 3
			r.etcd.kill(follower)
			return func() { r.etcd.start(follower) }
		}},
		{"the leader is killed", func() func() {
			leader, _ := r.etcd.waitLeader()
			r.etcd.kill(leader)
			return func() { r.etcd.start(leader) }
		}},
		{"the leader is frozen", func() func() {
			leader, _ := r.etcd.waitLeader()
			r.pass(r.etcd.freeze(leader), longEnough)
			r.etcd.thaw(leader)
			return func() {}
		}},
		{"the leader moves every second", func() func() {
			for began := time.Now(); time.Since(began) < longEnough; {
				leader, at := r.etcd.waitLeader()
				if err := r.etcd.moveLeader(leader, (leader+1)%3); err != nil {
					t.Logf("move the leader: %v", err) // an election may be under way
				}
				r.pass(at, time.Second)
			}
			return func() {}
		}},
	} {
		before, hit := r.census.now(), time.Now()
		heal := f.hit()
		r.pass(hit, longEnough)
		r.waitQuiet(memberTasks)
		t.Logf("measured: %s: %d of %d commands ran on as the same process", f.name, r.sameRuns(before), memberTasks)
		heal()
		r.etcd.waitLeader()
		r.waitQuiet(memberTasks)
		r.noneLost(memberTasks)
		r.noneExited()
	}
}

func TestBroker_M14_WithoutAQuorumAllCommandsEndInTimeAndRunAgainWithOne(t *testing.T) {
	r := newRoom(t, clusterConfig{}, "n1", "n2", "n3")
	r.load(memberTasks)
	lost := r.etcd.kill(0)
	r.etcd.kill(1)
	gone := r.eventually(patience, func() string { return missing(len(r.census.now()), 0, "commands may be alive") })
	r.goneInTime("loss of the quorum", lost, gone)
	r.holds(2*quiet, func() string { return missing(len(r.census.now()), 0, "commands may be alive without a quorum") })
	r.noneExited()
	regained := time.Now()
	r.etcd.start(0)
	r.took("start of a second member until all tasks run", regained, r.waitAllRun(memberTasks))
	r.etcd.start(1)
	r.etcd.waitLeader()
	r.waitQuiet(memberTasks)
	r.noneLost(memberTasks)
	r.noneExited()
}
