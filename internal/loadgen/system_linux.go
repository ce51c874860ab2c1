package loadgen

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// childAttr puts a child out of reach of the terminal's signals, which this
// process answers for all. A child that is mortal is killed when this process
// dies; others see the end of their input.
func childAttr(mortal bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if mortal {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// resident is the memory of this process that is in RAM.
func resident(*syscall.Rusage) int64 {
	content, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
