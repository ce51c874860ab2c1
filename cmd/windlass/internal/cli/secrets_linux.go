package cli

import "golang.org/x/sys/unix"

// keepSecrets keeps other processes of this user, such as commands of tasks, from reading
// this one's memory, environment and open files, and prevents core dumps. Root can still
// read them.
func keepSecrets() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
