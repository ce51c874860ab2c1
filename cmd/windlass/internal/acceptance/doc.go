// Package acceptance checks the guarantees of Windlass on the built program, from
// outside. Its tests use none of our code, except to read a ZooKeeper ensemble. They
// build cmd/windlass, run it as people do, kill, freeze and restart its processes, and
// count the running tasks by reading /proc.
//
//	test ---- starts, signals ----> windlass dev, windlass node   (world)
//	  |                                 |
//	  |                             supervisors --> commands, with WINDLASS_TASK,
//	  |                                             _RUN, _NODE, _TOKEN in their
//	  +------ reads /proc ------------------------> environment   (census)
//
// A census walks the process table every few milliseconds for as long as a test lasts,
// and records for each task which runs of it are alive. Two at one moment are an
// overlap, which fails every test. So does a run that finds the lock of its task taken:
// an flock that the processes of a run keep until the last of them has ended (locks).
//
// The broker is the embedded one (fleet), an etcd of one or three members over TCP
// (room, cluster), or a ZooKeeper ensemble (zookeeper_test.go), with which the tests of
// a fleet run again. Each etcd member is this test binary, started again. Nodes reach
// it over loopback, from network namespaces of their own, as the members have;
// connections between namespaces can be cut (network; needs root and the program ip).
// Or they reach it by a proxy that delays, throttles, holds back, breaks and damages
// (proxy).
//
// The census cannot see a run that begins and ends between two walks. Tests whose
// commands are short make them count themselves in a file, or read the store's own
// history of claims and endings (ledger).
//
// TestNight makes the situations of docs/operate/night.md, types the commands that are
// written there, and compares what they print with the page. It builds etcdctl and etcdutl
// from tools/etcd, and sets the clock of a single process (leap).
//
// TestSoak draws faults of every kind from a seed, for as long as one likes, and
// TestZooKeeperSoak does so with a ZooKeeper ensemble (quorum):
//
//	go test -tags e2e ./internal/acceptance -run TestSoak -soak 1h -timeout 0 -v
//
// It runs on Linux, and not under -short. A world has a folder of its own for
// everything a user has (home, state, run, temporary files), so tests disturb neither
// each other nor a dev of whoever runs them. When it ends, a check makes sure that
// nothing it started is alive. The next test removes what a killed one leaves behind,
// namespaces and mounts.
package acceptance
