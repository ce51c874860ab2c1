// Package exectask runs OS commands for tasks, so that no command outlives its node's
// right to run it.
//
// A context cannot end another process, and a node that is killed or frozen cannot end
// anything. So each node has one small helper process, the supervisor, which is the
// same binary started again in a session of its own:
//
//	node process                      supervisor process
//	Supervisor.Run ---- start ------>  forker thread --> program     group 1 --> its children
//	Supervisor.SetDeadline - t ----->  loop: one clock,  program     group 2
//	           <- exited, output ----        one owner   strays ...  found by walking /proc
//	(killed: end of stream)            deadline t passed, or stream ended:
//	(frozen: silence)                  SIGTERM, then SIGKILL, until nothing is left
//
// The node tells the supervisor until when its commands may live. The supervisor ends
// them at that moment unless it has received a later one. The deadline is an absolute
// reading of Boot, a clock that all processes of a host share and that runs through
// suspension, so a message that arrives late does not extend it.
//
// # Guaranteed, on Linux
//
//   - Nothing starts before the first SetDeadline nor past the stop deadline.
//   - At the stop deadline every run gets SIGTERM, at the hard deadline SIGKILL,
//     whatever state the node is in. After the machine was suspended that may be 100 ms
//     late.
//   - When the node dies, every run gets SIGTERM at once, and SIGKILL after its grace
//     or at the hard deadline, whichever is first.
//   - When the supervisor dies or falls silent, the node kills it and all runs and
//     reports ErrSupervisorLost; the next Run has a fresh one. If the node is frozen or
//     dead too, the programs themselves still die with the supervisor (death signal),
//     and the guard ends what they had started.
//   - When node and supervisor are frozen together, the guard ends all runs 100 ms after
//     the hard deadline.
//   - Where the node may make control groups of version 2, every run has one, and only
//     root can move a process out of it. Start ends the groups of supervisors that died
//     with their node and their guard.
//   - Run returns only when no process of the command is alive: not in its group, and
//     not one that left it by setsid and double fork. The supervisor is a child
//     subreaper, so such processes become its children; it identifies them by ancestry,
//     group and the variable WINDLASS_RUN.
//   - Result.Outlived counts the processes that were ended because the program had exited by
//     itself, as the daemon of one that goes into the background. They get SIGTERM once they
//     are counted, or after countMax.
//   - The program stays unreaped until then, so no signal goes to an unrelated process
//     that got its number.
//   - Usage counts every process that is known to belong to the command.
//   - Children see PATH, HOME, USER, LANG, TZ and TMPDIR of the node, what the props
//     set, and WINDLASS_TASK, _TOKEN, _NODE and _RUN: none of the node's credentials,
//     and none of its open files.
//
// # Not guaranteed
//
//   - It is no sandbox. A command runs as the node's user and may kill or freeze node
//     and supervisor. Allow limits which program starts.
//   - Work given to another process (systemd-run, at, docker) is not a descendant and
//     lives on.
//   - A process in uninterruptible sleep cannot be killed; its run does not end until
//     it wakes. A process that a root command gave to another user loses its death
//     signal. A fork bomb can outrun the walks until the run is killed, and some of it
//     even then: a cgroup around the node prevents that.
//   - A guard that is frozen with node and supervisor ends nothing before one of the
//     three goes on.
//   - Without control groups (Ungrouped) the processes that a program had started
//     outlive a node and supervisor that die together. A process that left its group,
//     lost its parents and cleared its environment then visibly belongs to no run. If
//     there is only one run, it ends with that; among several it ends with the first
//     that ends.
//   - Set-uid programs (sudo, su) get no privileges: no_new_privs is set, since such a
//     process could not be signalled.
//   - A program that is just starting at the hard deadline is killed right after it has
//     begun.
//   - Other systems than Linux have process groups only: deadlines, grace and the end
//     of the node work, but processes that leave their group are not found, and nothing
//     dies with the supervisor before the node notices.
//
// # Failures
//
// The outcome of the command is in Result, never an error. Errors mean that it did not
// start (ErrNotStarted, ErrPastDeadline, ErrTooMany, *InputError) or that its end is
// not known (ErrSupervisorLost). A log that cannot be written calls Command.LogFailed and
// sets Result.LogError; the command goes on without it.
//
// # Logs
//
// With Config.LogDir the whole output of a run is appended to LogPath(dir, task) below
// a line that names time, node, token and run. That line, the header, also names its own
// offset in the file: by it Tail leaves the headers out, and only what was printed is left.
// Where writing has failed, the next header says how much output is missing before it.
// At Config.LogMax the file becomes ".1", replacing an older one, so that a task keeps at
// most two. Logs that nobody has
// written to for Config.LogAge are removed, and the oldest ones if all together take
// more than Config.LogSpace; a run holds a lock (flock) on the one that it writes to.
// Files are 0600 in a folder that only the owner may write. On a file system that
// ignores case, IDs that differ by case share a log.
package exectask
