// Package acceptance checks the promises of Windlass on the built program, from
// outside. Its tests hold none of our code: they build cmd/windlass, run it as
// people do, kill, freeze and restart its processes, and count what runs by
// reading /proc.
//
//	test ---- starts, signals ----> windlass dev, windlass node   (world)
//	  |                                 |
//	  |                             supervisors --> commands, with WINDLASS_TASK,
//	  |                                             _RUN, _NODE, _TOKEN in their
//	  +------ reads /proc ------------------------> environment   (census)
//
// A census walks the process table every few milliseconds for as long as a test
// lasts, and keeps for each task which runs of it are alive. Two at one moment
// are an overlap, which fails the test whatever it is about.
//
// What it cannot see: a run that begins and ends between two walks. Tests whose
// commands are short let them count themselves in a file.
//
// It runs on Linux, and not under -short. A world has a folder of its own for
// everything a user has (home, state, run, temporary files), so tests disturb
// neither each other nor a dev of whoever runs them; when it ends, nothing that
// it started is alive, which is checked as well.
package acceptance
