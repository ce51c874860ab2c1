//go:build e2e && linux

package acceptance

import (
	"testing"
	"time"
)

// deathsOf returns how many deaths of a node are recorded.
func (f *fleet) deathsOf(name string) (n int) {
	f.t.Helper()
	var deaths []struct{ Node string }
	f.list(&deaths, "node", "deaths")
	for _, d := range deaths {
		if d.Node == name {
			n++
		}
	}
	return n
}

// A node is cut off for longer than its session, stops its work in time, and its process is
// killed before it is back. The next process knows that no task was to blame. One that is killed
// at its work has died.
func TestNodes_O02_AProcessThatDiesAfterItWasCutOffIsNoDeath(t *testing.T) {
	const tasks = 10
	r := newRoom(t, clusterConfig{net: newNetwork(t)}, "n1", "n2")
	r.load(tasks)
	before := r.incarnation("n1")
	r.net.cut("n1", silence)
	r.waitNoneOf("n1")
	r.until(patience, "n2 has recorded the death of n1", func() bool { return r.deathsOf("n1") == 1 })
	r.kill(r.nodes["n1"])
	r.net.heal("n1")
	r.startNode("n1")
	r.waitReturn("n1", before)
	r.until(soon, "the record is taken back", func() bool { return r.deathsOf("n1") == 0 })

	before = r.incarnation("n1")
	r.waitQuiet(tasks)
	r.kill(r.nodes["n1"])
	r.until(patience, "n2 has recorded the death of n1", func() bool { return r.deathsOf("n1") == 1 })
	r.startNode("n1")
	r.waitReturn("n1", before)
	r.pass(time.Now(), quiet)
	if r.deathsOf("n1") != 1 {
		t.Error("a process that was killed at its work has taken its death back")
	}
}
