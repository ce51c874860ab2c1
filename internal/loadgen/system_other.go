//go:build !linux

package loadgen

import (
	"runtime"
	"syscall"
)

// childAttr puts a child out of reach of the terminal's signals, which this
// process answers for all. It sees the end of its input when this process dies.
func childAttr(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// resident is the most memory of this process that ever was in RAM, which is all
// that these systems tell.
func resident(r *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return int64(r.Maxrss)
	}
	return int64(r.Maxrss) << 10
}
