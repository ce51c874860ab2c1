// Package acceptance checks the promises of Windlass on the built program, from
// outside. Its tests hold none of our code, but for what reads a ZooKeeper ensemble:
// they build cmd/windlass, run it as people do, kill, freeze and restart its
// processes, and count what runs by reading /proc.
//
//	test ---- starts, signals ----> windlass dev, windlass node   (world)
//	  |                                 |
//	  |                             supervisors --> commands, with WINDLASS_TASK,
//	  |                                             _RUN, _NODE, _TOKEN in their
//	  +------ reads /proc ------------------------> environment   (census)
//
// A census walks the process table every few milliseconds for as long as a test
// lasts, and keeps for each task which runs of it are alive. Two at one moment
// are an overlap, which fails the test whatever it is about. So does a run that finds
// the lock of its task taken, an flock that the processes of a run keep until the last
// of them has ended (locks).
//
// The broker is the embedded one (fleet), or an etcd of one or three members
// over TCP (room, cluster): this test binary, started again for each member; or a
// ZooKeeper ensemble (zookeeper_test.go), for which the tests of a fleet run again.
// Nodes reach it over loopback, out of network namespaces of their own, as the members
// have, between which can be cut (network; needs root and the program ip), or by a proxy that delays,
// throttles, holds back, breaks and damages (proxy).
//
// What the census cannot see: a run that begins and ends between two walks.
// Tests whose commands are short let them count themselves in a file, or read
// the store's own history of claims and endings (ledger).
//
// TestSoak draws faults of every kind from a seed, for as long as one likes, and
// TestZooKeeperSoak does so with a ZooKeeper ensemble (quorum):
//
//	go test -tags e2e ./internal/acceptance -run TestSoak -soak 1h -timeout 0 -v
//
// It runs on Linux, and not under -short. A world has a folder of its own for
// everything a user has (home, state, run, temporary files), so tests disturb
// neither each other nor a dev of whoever runs them; when it ends, nothing that
// it started is alive, which is checked as well. What a test that was killed
// leaves behind, namespaces and mounts, the next one removes.
package acceptance
