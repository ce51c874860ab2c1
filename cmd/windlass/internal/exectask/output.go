package exectask

import (
	"os"
	"sync"
	"syscall"
)

// buffers are lent to a run only while it has something to read, so a
// thousand quiet runs hold none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// output takes what a run writes: to its log, and the end of it to memory. One
// goroutine per run copies, so that a run whose log stands on a hanging disk
// holds up nobody else.
type output struct {
	pipe *os.File // the reading end; ends when no process holds the other
	max  int      // bytes of tail

	mu     sync.Mutex
	tail   []byte // at most 2*max; its last max bytes count
	total  int64
	logErr error // the first one; after it the log is left alone
}

// copy reads until the pipe ends or its deadline passes.
func (o *output) copy(order *startOrder) {
	defer o.pipe.Close()
	var log *runLog
	if len(order.Log) > 0 {
		var err error
		log, err = openLog(string(order.Log), order.LogMax, order.Header)
		o.noteLog(err)
	}
	raw, err := o.pipe.SyscallConn()
	for err == nil {
		buf := readReady(raw)
		if buf == nil {
			break
		}
		o.keep(*buf)
		if log != nil && o.logOK() {
			_, logErr := log.Write(*buf)
			o.noteLog(logErr)
		}
		*buf = (*buf)[:cap(*buf)]
		buffers.Put(buf)
	}
	if log != nil {
		o.noteLog(log.close())
	}
}

// readReady waits until there is something to read and only then takes a
// buffer. Nil means the end, or that the pipe's deadline has passed.
func readReady(raw syscall.RawConn) (full *[]byte) {
	err := raw.Read(func(fd uintptr) bool {
		buf := buffers.Get().(*[]byte)
		n, err := syscall.Read(int(fd), *buf)
		for err == syscall.EINTR {
			n, err = syscall.Read(int(fd), *buf)
		}
		if n > 0 {
			*buf = (*buf)[:n]
			full = buf
			return true
		}
		buffers.Put(buf)
		return err != syscall.EAGAIN
	})
	if err != nil {
		return nil
	}
	return full
}

func (o *output) keep(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(p))
	if len(p) > o.max {
		p = p[len(p)-o.max:]
	}
	o.tail = append(o.tail, p...)
	if len(o.tail) > 2*o.max {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-o.max:]...)
	}
}

func (o *output) logOK() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logErr == nil
}

func (o *output) noteLog(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.logErr == nil {
		o.logErr = err
	}
}

// fill adds what is known of the output to r. Whole says that the pipe was
// read to its end.
func (o *output) fill(r *Result, whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tail := o.tail
	if len(tail) > o.max {
		tail = tail[len(tail)-o.max:]
	}
	r.Output = append([]byte(nil), tail...)
	r.OutputBytes = o.total
	r.Truncated = o.total > int64(len(tail)) || !whole
	if o.logErr != nil {
		r.LogError = o.logErr.Error()
	}
}
