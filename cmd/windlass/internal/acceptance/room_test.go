//go:build e2e && linux

package acceptance

import (
	"testing"
)

// room is a fleet whose broker is an etcd over TCP.
type room struct {
	*fleet
	etcd *cluster
}

// newRoom starts an etcd and nodes, in a network if the configuration has one.
func newRoom(t *testing.T, config clusterConfig, nodes ...string) *room {
	t.Helper()
	w := newWorld(t)
	r := &room{fleet: fleetOf(w), etcd: startCluster(w, config)}
	r.net, r.ttl, r.address = config.net, config.ttl, map[string]string{}
	w.env = append(w.env, "WINDLASS_BROKER="+r.etcd.address())
	for _, name := range nodes {
		if r.net != nil {
			r.net.add(name)
		}
		r.startNode(name)
	}
	r.eventually(soon, func() string { return r.missingNodes(len(nodes)) })
	return r
}

// load submits tasks that do not end and waits until each runs.
func (r *room) load(tasks int) { r.loadWith(tasks, forever) }

func (r *room) loadWith(tasks int, script string) {
	r.t.Helper()
	r.submit("t", tasks, script)
	r.waitAllRun(tasks)
	r.waitQuiet(tasks)
}
