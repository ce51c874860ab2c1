//go:build e2e && linux

package acceptance

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// clockGettime is machine code that asks the kernel for a time, and adds seconds, which follow
// it, to the time of day.
var clockGettime = []byte{
	0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
	0x75, 7, // jne to the ret
	0x48, 0x81, 0x06, // add qword [rsi], the seconds
}

// leap sets the time of day of one process forward, as setting the machine's clock would. It
// replaces the process's own copy of the kernel's function for times (vDSO), which is what Go
// calls. Other processes, its commands included, keep their time.
func (w *world) leap(p *process, by time.Duration) time.Time {
	w.t.Helper()
	if runtime.GOARCH != "amd64" {
		w.t.Skip("the clock of a process is set by machine code for amd64")
	}
	pid := p.cmd.Process.Pid
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must(w.t, err)
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			must(w.t, err)
		}
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	must(w.t, err)
	defer memory.Close() // a write is done when it returns
	image := make([]byte, to-from)
	_, err = io.ReadFull(io.NewSectionReader(memory, from, to-from), image)
	must(w.t, err)
	vdso, err := elf.NewFile(bytes.NewReader(image))
	must(w.t, err)
	functions, err := vdso.DynamicSymbols()
	must(w.t, err)
	for _, f := range functions {
		if f.Name == "__vdso_clock_gettime" {
			code := binary.LittleEndian.AppendUint32(bytes.Clone(clockGettime), uint32(by/time.Second))
			at := w.signal(p, syscall.SIGSTOP)
			_, err := memory.WriteAt(append(code, 0xc3), from+int64(f.Value)) // ret
			w.signal(p, syscall.SIGCONT)
			must(w.t, err)
			return at
		}
	}
	w.t.Fatal("the vDSO has no clock_gettime")
	return time.Time{}
}
