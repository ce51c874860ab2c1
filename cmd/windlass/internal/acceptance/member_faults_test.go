//go:build e2e && linux

package acceptance

import (
	"testing"
	"time"
)

// memberTasks is how many tasks run while members of the broker fail.
const memberTasks = 60

// longEnough is how long a fault must last to end sessions if renewals fail: longer than until
// commands are stopped.
const longEnough = ttl * 4 / 5

func TestBroker_M14_AMemberThatDiesOrFreezesOrLeadsNoMoreEndsNoTask(t *testing.T) {
	r := newRoom(t, clusterConfig{}, "n1", "n2", "n3")
	r.load(memberTasks)
	for _, f := range []struct {
		name string
		hit  func(leader int) (heal func())
	}{
		{"a follower is killed", func(leader int) func() {
			follower := (leader + 1) % 3
			r.etcd.kill(follower)
			return func() { r.etcd.start(follower) }
		}},
		{"the leader is killed", func(leader int) func() {
			r.etcd.kill(leader)
			return func() { r.etcd.start(leader) }
		}},
		{"the leader is frozen", func(leader int) func() {
			r.pass(r.etcd.freeze(leader), longEnough)
			r.etcd.thaw(leader)
			return func() {}
		}},
		{"the leader moves every second", func(int) func() {
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
		leader, _ := r.etcd.waitLeader()
		before, hit := r.census.now(), time.Now()
		heal := f.hit(leader)
		r.pass(hit, longEnough)
		r.waitQuiet(memberTasks)
		t.Logf("measured: %s: %d of %d commands ran on as the same process", f.name, r.sameRuns(before), memberTasks)
		heal()
		r.etcd.waitLeader()
		r.recovered(memberTasks)
	}
}

func TestBroker_M14_WithoutAQuorumAllCommandsEndInTimeAndRunAgainWithOne(t *testing.T) {
	r := newRoom(t, clusterConfig{}, "n1", "n2", "n3")
	r.load(memberTasks)
	lost := r.etcd.kill(0)
	r.etcd.kill(1)
	r.goneInTime("loss of the quorum", lost, r.waitNone())
	r.holds(2*quiet, r.noneAlive)
	r.noneExited()
	regained := time.Now()
	r.etcd.start(0)
	r.took("start of a second member until all tasks run", regained, r.waitAllRun(memberTasks))
	r.etcd.start(1)
	r.etcd.waitLeader()
	r.recovered(memberTasks)
}
