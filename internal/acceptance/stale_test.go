//go:build e2e && linux

package acceptance

import (
	"flag"
	"slices"
	"testing"
	"time"
)

var staleTrials = flag.Int("stale-trials", 3, "how often TestBroker_M14_ALeaderThatFrozeAndGoesOnEndsNoSession freezes a leader")

// staleFor is for how long at most a member that goes on takes itself for the leader.
const staleFor = 2 * time.Second

// TestBroker_M14_ALeaderThatFrozeAndGoesOnEndsNoSession freezes the leader until another
// leads and sessions are old by its own count, which go on elsewhere. One of the nodes
// reaches nobody else.
func TestBroker_M14_ALeaderThatFrozeAndGoesOnEndsNoSession(t *testing.T) {
	r := newRoom(t, clusterConfig{net: newNetwork(t)}, "n1", "n2", "n3")
	r.load(memberTasks)
	freezes := []time.Duration{ttl * 6 / 5, ttl * 2 / 5, ttl * 6 / 5, ttl * 8 / 5, ttl * 3 / 5, ttl * 6 / 5, ttl}
	ended := 0
	for i := range *staleTrials {
		leader, _ := r.etcd.waitLeader()
		others := slices.DeleteFunc([]int{0, 1, 2}, func(m int) bool { return m == leader })
		before := map[string]string{"n2": r.incarnation("n2"), "n3": r.incarnation("n3")}
		r.net.cut("n1", silence, others...)
		r.pass(r.etcd.freeze(leader), freezes[i%len(freezes)])
		r.pass(r.etcd.thaw(leader), staleFor)
		for name, incarnation := range before {
			if now := r.incarnation(name); now != incarnation {
				ended++
				t.Errorf("trial %d: the leader was frozen for %v: the session of %s has ended", i, freezes[i%len(freezes)], name)
			}
		}
		r.net.heal("n1")
		r.etcd.waitLeader()
		r.waitQuiet(memberTasks)
		r.noneLost(memberTasks)
	}
	t.Logf("measured: %d freezes of a leader: %d sessions of nodes that reach others ended", *staleTrials, ended)
	r.noneExited()
}
