//go:build e2e && linux

package acceptance

import (
	"fmt"
	"testing"
	"time"
)

// pipedTasks is how many tasks run while a node's connection is bad.
const pipedTasks = 40

// newPiped starts an etcd of one member, a node n1 that reaches it by a proxy, and a node n2
// that reaches it directly.
func newPiped(t *testing.T) (*room, *proxy) {
	t.Helper()
	r := newRoom(t, clusterConfig{members: 1})
	p := startProxy(t, r.etcd.members[0].config.Client)
	r.address["n1"] = "etcd://" + p.address()
	r.startNode("n1")
	r.startNode("n2")
	r.eventually(soon, func() string { return r.missingNodes(2) })
	r.load(pipedTasks)
	return r, p
}

// rest checks that nothing was lost by a fault that is over.
func (r *room) rest(what string, before map[string]run, tasks int) {
	r.t.Helper()
	r.recovered(tasks)
	r.t.Logf("measured: %s: %d of %d commands ran on as the same process", what, r.sameRuns(before), len(before))
}

func TestNodes_M14_ASlowOrBrokenConnectionLosesNoTask(t *testing.T) {
	r, p := newPiped(t)
	both := func(s shape) {
		p.set(toBroker, s)
		p.set(toNode, s)
	}
	// A renewal of a 5 s session may take 0.67 s.
	before := r.census.now()
	both(shape{latency: 150 * time.Millisecond})
	r.undisturbed(longEnough, before)
	r.rest("0.3 s for each round trip", before, pipedTasks)

	both(shape{bytesPerSecond: 20_000})
	r.submit("more", pipedTasks, forever)
	r.rest("20 kB/s, and as many tasks again", before, 2*pipedTasks)
	both(shape{})

	for _, f := range []struct {
		name string
		hit  func()
	}{
		{"resets", p.reset},
		{"half closes to the broker", func() { p.halfClose(toBroker) }},
		{"half closes to the node", func() { p.halfClose(toNode) }},
	} {
		before, began := r.census.now(), time.Now()
		for n := 1; time.Since(began) < 3*time.Second; n++ {
			f.hit()
			r.pass(began, time.Duration(n)*700*time.Millisecond)
		}
		r.rest(f.name, before, 2*pipedTasks)
	}
}

func TestNodes_M12_M14_WhatADelayedConnectionDeliversAfterTheSessionDoesNoHarm(t *testing.T) {
	r, p := newPiped(t)
	for _, d := range []direction{toBroker, toNode} {
		what := [...]string{toBroker: "requests held back", toNode: "replies held back"}[d]
		before := r.census.now()
		held := time.Now()
		p.set(d, shape{paused: true})
		// The node's claims of these tasks arrive much later.
		r.submit(fmt.Sprintf("late%d-", d), pipedTasks, forever)
		r.took(what+": until the node's commands are gone", held, r.waitNoneOf("n1"))
		all := pipedTasks * (2 + int(d))
		r.took(what+": until all tasks run", held, r.waitAllRun(all, "n1"))
		p.set(d, shape{})
		r.eventually(patience, func() string { return r.missingNodes(2) })
		r.rest(what, before, all)
	}
}

// Without TLS a damaged command cannot be told from a real one. The node is therefore frozen,
// so that it claims nothing.
func TestNodes_M14_FlippedBitsInAnswersLoseNoTask(t *testing.T) {
	r, p := newPiped(t)
	r.must("node", "freeze", "n1")
	before := r.census.now()
	p.set(toNode, shape{flipped: true})
	r.pass(time.Now(), ttl)
	p.set(toNode, shape{})
	// Damage to a header is remembered by both ends for as long as their
	// connection lasts (HPACK), so the fault ends with the connections.
	p.reset()
	r.eventually(patience, func() string { // it may be between two incarnations
		if _, errs, code := r.call("node", "unfreeze", "n1"); code != 0 {
			return "n1 is unfrozen: " + errs
		}
		return r.missingNodes(2)
	})
	r.rest("a flipped bit in every piece of an answer", before, pipedTasks)
}
