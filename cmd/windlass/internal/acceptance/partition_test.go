//go:build e2e && linux

package acceptance

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// cutTasks is how many tasks the nodes of a network run.
const cutTasks = 60

// Nodes are first cut off from some members, which must not disturb anything, and then from
// all, in every way.
func TestNodes_M14_NodesThatAreCutOffStopBeforeOthersStartTheirTasks(t *testing.T) {
	r := newRoom(t, clusterConfig{net: newNetwork(t)}, "n1", "n2", "n3", "n4")
	r.load(cutTasks)
	before := r.census.now()
	// Each member is the only one that some node reaches, whichever leads.
	r.net.cut("n1", silence, 1, 2)
	r.net.cut("n2", silence, 0, 2)
	r.net.cut("n3", refused, 0, 1)
	r.net.cut("n4", refused, 2)
	r.undisturbed(ttl+quiet, before)
	t.Logf("measured: some members out of reach: %d of %d commands run on", r.sameRuns(before), cutTasks)
	for name := range r.nodes {
		r.net.heal(name)
	}
	r.undisturbed(quiet, before)

	r.cutOff(map[string]fault{"n1": silence, "n2": requestsLost})
	r.settled() // or tasks still move to the nodes that are back
	r.cutOff(map[string]fault{"n3": repliesLost, "n4": refused})
}

// settled waits until the moves after joins are over: each node runs commands, and nothing has
// moved for longer than nodes check after a join.
func (r *room) settled() {
	r.t.Helper()
	const looks = 11 * time.Second // ten, a second apart
	var still stillness
	r.eventually(patience, func() string {
		now, counts := r.census.now(), r.census.byNode()
		lasted := still.lasted(now)
		for name := range r.nodes {
			if counts[name] == 0 {
				return fmt.Sprintf("%s runs commands; %v run", name, counts)
			}
		}
		if len(now) < cutTasks || lasted < looks {
			return fmt.Sprintf("nothing moves; %v run", counts)
		}
		return ""
	})
}

// cutOff cuts nodes off from all members, until others have taken over, and
// heals them.
func (r *room) cutOff(faults map[string]fault) {
	r.t.Helper()
	before := r.census.now()
	names := slices.Sorted(maps.Keys(faults))
	incarnations, stay := map[string]string{}, cutTasks
	for _, name := range names {
		incarnations[name] = r.incarnation(name)
		stay -= len(of(before, name))
		if len(of(before, name)) == 0 {
			r.t.Errorf("%s runs nothing", name)
		}
	}
	cut := time.Now()
	for _, name := range names {
		r.net.cut(name, faults[name])
	}
	for _, name := range names {
		r.goneInTime(faults[name].String(), cut, r.waitNoneOf(name))
	}
	r.took("cut until all tasks run again", cut, r.waitAllRun(cutTasks, names...))
	if same := r.sameRuns(before); same != stay {
		r.t.Errorf("%d of %d commands of the other nodes ran on", same, stay)
	}
	r.noneExited()
	healed := time.Now()
	for _, name := range names {
		r.net.heal(name)
	}
	for _, name := range names {
		r.took(faults[name].String()+": healing until the node is back", healed, r.waitReturn(name, incarnations[name]))
	}
	r.recovered(cutTasks)
}
