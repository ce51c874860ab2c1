package exectask

import (
	"bytes"
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

	// trouble is called once if the log lacks output, or gets it late, by copy's goroutine.
	trouble func(error)

	mu    sync.Mutex
	tail  []byte // at most 2*max; its last max bytes count
	total int64
	lacks gap // what the log lacks of it
}

// copy reads until the pipe ends or its deadline passes.
func (o *output) copy(order *startOrder, gaps *gaps) {
	defer o.pipe.Close()
	var log *runLog
	trouble := sync.OnceFunc(func() { o.trouble(log.lacks.cause) })
	look := func() { // not only after an error: a file that was removed is begun anew without one
		if o.noteLog(log); log.lacks.cause != nil {
			trouble()
		}
	}
	if path := string(order.Log); path != "" {
		log = newRunLog(path, order.LogMax, order.Header, gaps.take(path))
		_ = log.begin()
		look()
		defer func() {
			gaps.keep(path, log.close())
			look()
		}()
	}
	raw, err := o.pipe.SyscallConn()
	for err == nil {
		buf := readReady(raw)
		if buf == nil {
			break
		}
		o.keep(*buf)
		if log != nil {
			_ = log.write(*buf)
			look()
		}
		*buf = (*buf)[:cap(*buf)]
		buffers.Put(buf)
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

func (o *output) noteLog(l *runLog) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lacks = l.lacks
}

// gaps has what logs lack at their ends, by path: the next run of the task notes it.
type gaps struct {
	mu sync.Mutex
	of map[string]gap
}

// take returns what a log lacks, for its next run to note.
func (g *gaps) take(path string) gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	lacks := g.of[path]
	delete(g.of, path)
	return lacks
}

// keep keeps what a run could not note. When there is no room, any older one is dropped:
// its task may never run here again.
func (g *gaps) keep(path string, lacks gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lacks.bytes == 0 {
		return
	}
	for other := range g.of {
		if len(g.of) < RunsMax {
			break
		}
		delete(g.of, other)
	}
	g.of[path] = lacks
}

// fill sets the fields of r about output; whole is whether the pipe was read to its end.
func (o *output) fill(r *Result, whole bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Output = bytes.Clone(o.tail[max(0, len(o.tail)-o.max):])
	r.OutputBytes = o.total
	r.Truncated = o.total > int64(len(r.Output)) || !whole
	if o.lacks.cause != nil {
		r.LogError, r.LogMissing = o.lacks.cause.Error(), o.lacks.bytes
	}
}
