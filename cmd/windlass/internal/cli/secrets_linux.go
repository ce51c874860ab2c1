package cli

import "golang.org/x/sys/unix"

// keepSecrets keeps other processes of this user, commands of tasks among them, from
// reading this one's memory, environment and open files, and no core is ever written.
// Who may trace all processes, as root may, still can.
func keepSecrets() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
