//go:build unix

package conns

import "syscall"

// filesMax is how many files this process may have open.
func filesMax() (most uint64, known bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return uint64(l.Cur), true
}
