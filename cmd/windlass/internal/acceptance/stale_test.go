//go:build e2e && linux

package acceptance

import (
	"flag"
	"slices"
	"testing"
	"time"
)

var (
	staleTrials = flag.Int("stale-trials", 6, "how often TestBroker_M14_ALeaderThatFrozeAndGoesOnEndsNoSession freezes a leader")
	staleTTL    = flag.Duration("stale-ttl", ttl, "the session TTL in it")
)

// staleFor is for how long at most a member that goes on takes itself for the leader.
const staleFor = 2 * time.Second

// The leader is frozen until another leads and, mostly, until sessions look expired to it that
// were renewed elsewhere. One node reaches only the frozen leader. In every other trial the
// leader is cut off from the members as well, so that it does not learn that it lost the lead.
func TestBroker_M14_ALeaderThatFrozeAndGoesOnEndsNoSession(t *testing.T) {
	r := newRoom(t, clusterConfig{net: newNetwork(t), ttl: *staleTTL}, "n1", "n2", "n3")
	r.loadWith(memberTasks, stubborn)                                                        // until the very end of a session
	freezes := []float64{1.2, 0.4, 0.4, 0.3, 1.2, 0.5, 1.6, 1.2, 0.6, 0.4, 1.2, 0.6, 1, 0.8} // in TTLs
	ended := 0
	for i := range *staleTrials {
		leader, _ := r.etcd.waitLeader()
		others := slices.DeleteFunc([]int{0, 1, 2}, func(m int) bool { return m == leader })
		before := map[string]string{"n2": r.incarnation("n2"), "n3": r.incarnation("n3")}
		freeze, alone := time.Duration(freezes[i%len(freezes)]*float64(*staleTTL)), i%2 == 1
		r.net.cut("n1", silence, others...)
		r.pass(time.Now(), *staleTTL/2) // it turns to the leader
		if alone {
			r.net.cut(memberName(leader), silence)
		}
		r.pass(r.etcd.freeze(leader), freeze)
		r.pass(r.etcd.thaw(leader), staleFor)
		for name, incarnation := range before {
			if now := r.incarnation(name); now != incarnation {
				ended++
				t.Errorf("trial %d: the leader was frozen for %v, cut off: %t: the session of %s has ended", i, freeze, alone, name)
			}
		}
		if alone {
			r.waitAllRun(memberTasks, "n1")
		}
		r.net.heal("n1")
		r.net.heal(memberName(leader))
		r.etcd.waitLeader()
		r.waitQuiet(memberTasks)
		r.noneLost(memberTasks)
	}
	t.Logf("measured: %d freezes of a leader, every other cut off from the members: %d sessions of nodes that reach others ended", *staleTrials, ended)
	r.noneExited()
}
