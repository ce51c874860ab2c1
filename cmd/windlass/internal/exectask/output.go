package exectask

import (
	"bytes"
	"cmp"
	"os"
	"sync"
	"syscall"
)

// buffers are in use only while there is output to read: a thousand quiet runs hold none.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// output copies what a run writes to its log, and keeps the end in memory. Each run has
// its own goroutine, so that a log on a hanging disk delays no other run.
type output struct {
	pipe *os.File // the reading end; ends when no process holds the other
	max  int      // bytes of tail

	mu     sync.Mutex
	tail   []byte // at most 2*max; its last max bytes count
	total  int64
	logErr error // the first one, set by copy's goroutine; nothing is logged after it
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
		if log != nil && o.logErr == nil {
			o.noteLog(log.write(*buf))
		}
		*buf = (*buf)[:cap(*buf)]
		buffers.Put(buf)
	}
	if log != nil {
		o.noteLog(log.file.Close())
	}
}

// readReady waits for data and only then takes a buffer. It returns nil at the end, or when
// the pipe's deadline has passed.
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
	o.tail = append(o.tail, p[max(0, len(p)-o.max):]...)
	if len(o.tail) > 2*o.max {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-o.max:]...)
	}
}

func (o *output) noteLog(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.logErr = cmp.Or(o.logErr, err)
}

// fill sets the fields of r about output; whole is whether the pipe was read to its end.
func (o *output) fill(r *Result, whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Output = bytes.Clone(o.tail[max(0, len(o.tail)-o.max):])
	r.OutputBytes = o.total
	r.Truncated = o.total > int64(len(r.Output)) || !whole
	if o.logErr != nil {
		r.LogError = o.logErr.Error()
	}
}
