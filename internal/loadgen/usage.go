package loadgen

import (
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// Usage is what a process has used.
type Usage struct {
	// CPU is the processor time since the process began.
	CPU time.Duration `json:"cpu_ns"`
	// Resident is the memory of the process that is in RAM, in bytes.
	Resident int64 `json:"resident_bytes"`
	// Heap is the memory in use by Go, stacks included, in bytes.
	Heap int64 `json:"heap_bytes"`
}

// usageNow is this process's. With collect, memory that nothing uses any more is
// given back first.
func usageNow(collect bool) Usage {
	if collect {
		debug.FreeOSMemory()
	}
	var u Usage
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.CPU = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Heap = int64(m.HeapInuse + m.StackInuse)
	u.Resident = resident(&r)
	return u
}
