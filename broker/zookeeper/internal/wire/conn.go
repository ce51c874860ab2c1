package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Conn is one connection with its session. Its methods are safe for concurrent
// use.
type Conn struct {
	socket   net.Conn
	config   Config
	session  int64
	password []byte
	timeout  time.Duration

	mu sync.Mutex
	// queue are the requests that are not yet sent, sent those without an answer.
	queue, sent []*call
	lastXid     int32
	// heard is when the last message of the server arrived.
	heard time.Duration
	// pinged is when the unanswered ping was sent, zero if there is none.
	pinged time.Duration
	// err is the reason for which the connection ended. Invariant: once set, nothing is
	// added to queue or sent.
	err error

	wake  chan struct{} // capacity 1: the queue has something
	stop  chan struct{} // closed with err set
	ended chan struct{} // closed when every request has its answer
	tasks sync.WaitGroup
}

// call is a request without an answer.
type call struct {
	request Request
	xid     int32
	at      time.Duration
	done    func(Reply, error)
}

// Session returns the session's ID.
func (c *Conn) Session() int64 { return c.session }

// Password returns the secret with which the session can be resumed.
func (c *Conn) Password() []byte { return c.password }

// Timeout returns the session timeout that the server granted.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// Address returns the server's address as configured.
func (c *Conn) Address() string { return c.config.Address }

// Ended is closed when the connection has ended and every request has its answer.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Err returns the reason for which the connection ended, nil if it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Send queues a request. done is called once, with the answer, and must not block. The
// goroutine that also delivers events calls it, or Send itself if the connection has ended.
func (c *Conn) Send(request Request, done func(Reply, error)) {
	c.send(&call{request: request, done: done})
}

func (c *Conn) send(call *call) {
	c.mu.Lock()
	err := c.err
	if err == nil {
		c.queue = append(c.queue, call)
	}
	c.mu.Unlock()
	if err != nil {
		call.done(Reply{}, &Error{Cause: err})
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // the writer is awake already
	}
}

// drop removes a request from the queue, so that it is neither sent nor answered, and
// reports whether it was still there.
func (c *Conn) drop(call *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queue, call)
	if i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
	}
	return i >= 0
}

// Answer is the reply to a request, or an error.
type Answer struct {
	Reply Reply
	Err   error
}

// Do sends a request and waits for its answer, or until ctx ends.
func (c *Conn) Do(ctx context.Context, request Request) (Reply, error) {
	a := c.DoAll(ctx, request)[0]
	return a.Reply, a.Err
}

// DoAll sends requests without waiting in between, and returns the answer of each,
// in order. When ctx ends, those without an answer get an error.
func (c *Conn) DoAll(ctx context.Context, requests ...Request) []Answer {
	type numbered struct {
		Answer
		i int
	}
	arrived := make(chan numbered, len(requests))
	calls := make([]*call, len(requests))
	for i, request := range requests {
		calls[i] = &call{request: request, done: func(r Reply, err error) { arrived <- numbered{Answer{r, err}, i} }}
		c.send(calls[i])
	}
	answers, answered := make([]Answer, len(requests)), make([]bool, len(requests))
	take := func(n numbered) { answers[n.i], answered[n.i] = n.Answer, true }
	for n := 0; n < len(requests) && ctx.Err() == nil; n++ {
		select {
		case a := <-arrived:
			take(a)
		case <-ctx.Done():
		}
	}
	for i, call := range calls {
		if !answered[i] {
			answers[i].Err = &Error{Sent: !c.drop(call), Cause: ctx.Err()}
		}
	}
	for { // answers that arrived at the same time
		select {
		case a := <-arrived:
			take(a)
		default:
			return answers
		}
	}
}

// Close ends the connection, not the session, and waits until every request has
// its answer. Functions passed to Send must not call it.
func (c *Conn) Close() {
	c.fail(ErrClosed)
	c.tasks.Wait()
}

// fail ends the connection. The first reason counts.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
		close(c.stop)
	}
	c.mu.Unlock()
	if first {
		_ = c.socket.Close() // wakes the reader, which answers all requests
	}
}

// silence returns how long the server may send nothing while a request is unanswered.
func (c *Conn) silence() time.Duration { return 2 * c.timeout / 3 }

// writeBytes is the size from which a batch of requests is written.
const writeBytes = 256 << 10

// write sends the queued requests, and pings.
func (c *Conn) write() {
	ping := time.NewTicker(max(c.timeout/time.Duration(c.config.Pings), time.Millisecond))
	defer ping.Stop()
	for {
		var batch []byte
		select {
		case <-c.stop:
			return
		case <-c.wake:
		case <-ping.C:
			batch = c.ping()
		}
		for {
			var more bool
			batch, more = c.takeQueue(batch)
			if len(batch) == 0 {
				break
			}
			_ = c.socket.SetWriteDeadline(time.Now().Add(c.silence()))
			if _, err := c.socket.Write(batch); err != nil {
				c.fail(err)
				return
			}
			if batch = batch[:0]; !more {
				break
			}
		}
	}
}

// takeQueue appends queued requests to batch, and reports whether there are more.
func (c *Conn) takeQueue(batch []byte) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, false
	}
	now := c.config.Now()
	for len(c.queue) > 0 && len(batch) < writeBytes {
		call := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		c.lastXid = max(c.lastXid+1, 1) // starts over after an overflow
		call.xid, call.at = c.lastXid, now
		c.sent = append(c.sent, call)
		batch = binary.BigEndian.AppendUint32(batch, uint32(8+len(call.request.body)))
		batch = binary.BigEndian.AppendUint32(batch, uint32(call.xid))
		batch = binary.BigEndian.AppendUint32(batch, uint32(call.request.op))
		batch = append(batch, call.request.body...)
	}
	return batch, len(c.queue) > 0
}

// ping returns a ping to send, if one is due, and ends the connection if the server has
// been silent for too long.
func (c *Conn) ping() []byte {
	now := c.config.Now()
	c.mu.Lock()
	oldest := c.pinged
	if len(c.sent) > 0 && (oldest == 0 || c.sent[0].at < oldest) {
		oldest = c.sent[0].at
	}
	silent := oldest != 0 && now-max(oldest, c.heard) > c.silence()
	due := !silent && c.pinged == 0 && (c.config.Pinging == nil || c.config.Pinging())
	if due {
		c.pinged = now
	}
	c.mu.Unlock()
	if silent {
		c.fail(fmt.Errorf("%w: nothing came for %v", ErrSilent, c.silence()))
	}
	if !due {
		return nil
	}
	e := &Encoder{}
	e.int32(8)
	e.int32(xidPing)
	e.int32(opPing)
	return e.buf
}

// read delivers the server's messages, and at the end an error to all remaining requests.
func (c *Conn) read() {
	defer close(c.ended)
	in := bufio.NewReaderSize(c.socket, 64<<10)
	for {
		frame, err := readFrame(in, ReplyBytesMax)
		if err == nil {
			err = c.deliver(frame)
		}
		if err != nil {
			c.fail(err)
			break
		}
	}
	c.mu.Lock()
	err, sent, unsent := c.err, c.sent, c.queue
	c.sent, c.queue = nil, nil
	c.mu.Unlock()
	for _, call := range sent {
		call.done(Reply{}, &Error{Sent: true, Cause: err})
	}
	for _, call := range unsent {
		call.done(Reply{}, &Error{Cause: err})
	}
}

// deliver handles one message of the server.
func (c *Conn) deliver(frame []byte) error {
	d := &Decoder{buf: frame}
	h := readHeader(d)
	if d.err != nil {
		return d.err
	}
	now := c.config.Now()
	switch h.xid {
	case xidEvent:
		event := readEvent(d)
		if d.err == nil && c.config.Events != nil {
			c.config.Events(event)
		}
		return d.err
	case xidPing:
		c.mu.Lock()
		at := c.pinged
		c.pinged, c.heard = 0, now
		c.mu.Unlock()
		c.answered(at, now)
		return nil
	}
	c.mu.Lock()
	var call *call
	if len(c.sent) > 0 && c.sent[0].xid == h.xid {
		call = c.sent[0]
		c.sent[0] = nil
		c.sent = c.sent[1:]
	}
	c.heard = now
	c.mu.Unlock()
	if call == nil {
		return fmt.Errorf("%w: reply %d is not the one that is due", errDamaged, h.xid)
	}
	reply, err := call.request.decodeReply(h, d)
	if d.err != nil {
		call.done(Reply{}, &Error{Sent: true, Cause: d.err})
		return d.err
	}
	c.answered(call.at, now)
	if c.config.Replied != nil {
		c.config.Replied(h.zxid)
	}
	call.done(reply, err)
	return nil
}

func (c *Conn) answered(sent, received time.Duration) {
	if c.config.Answered != nil {
		c.config.Answered(sent, received)
	}
}
