//go:build e2e && linux

package acceptance

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy passes TCP connections on to one address, as badly as it is told to. It
// is for the faults that a namespace cannot make.
//
//	node --- reader -> chunks, each with when it is due -> writer --- broker
//	node --- writer <- chunks, each with when it is due <- reader --- broker
type proxy struct {
	target   string
	listener net.Listener
	life     sync.WaitGroup

	mu sync.Mutex
	// shapes say how each direction is treated; changed is closed, and made
	// anew, when they change.
	shapes  [2]shape
	changed chan struct{}
	pairs   map[*pair]bool
	closed  bool
}

// direction is one of the two of a connection.
type direction int

const (
	toBroker direction = iota
	toNode
)

// shape is how one direction is treated. The zero value passes everything on.
type shape struct {
	latency        time.Duration
	bytesPerSecond int  // zero is no bound
	paused         bool // nothing is passed on, and nothing is lost
	flipped        bool // one bit of each chunk is
}

// pair is a connection and the one that it is passed on to.
type pair struct {
	ends [2]*net.TCPConn // by the direction that ends there
	over chan struct{}
	once sync.Once
}

// chunk is what was read at once.
type chunk struct {
	bytes []byte
	read  time.Time
}

// Bounds of what a direction holds back.
const (
	chunkBytes = 16 << 10
	chunksMax  = 256
)

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{target: target, listener: l, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	p.life.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		p.life.Go(func() { p.serve(near.(*net.TCPConn)) })
	}
}

func (p *proxy) serve(near *net.TCPConn) {
	far, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = near.Close() // as the target would have it
		return
	}
	c := &pair{ends: [2]*net.TCPConn{toBroker: far.(*net.TCPConn), toNode: near}, over: make(chan struct{})}
	p.mu.Lock()
	closed := p.closed
	p.pairs[c] = true
	p.mu.Unlock()
	if closed {
		c.end()
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(c, toBroker) })
	both.Go(func() { p.pump(c, toNode) })
	both.Wait()
	c.end()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// end closes a connection on both sides, at once.
func (c *pair) end() {
	c.once.Do(func() { close(c.over) })
	for _, end := range c.ends {
		_ = end.Close() // it may be closed
	}
}

// pump passes on one direction until it ends, and then the end.
func (p *proxy) pump(c *pair, d direction) {
	chunks := make(chan chunk, chunksMax)
	var reading sync.WaitGroup
	reading.Go(func() { read(c, c.ends[1-d], chunks) })
	for k := range chunks {
		if !p.hold(c, d, k) {
			break
		}
		// After half a close there is nobody to write to, and the other
		// direction goes on.
		_, _ = c.ends[d].Write(k.bytes)
	}
	select {
	case <-c.over: // or a reset would look like an orderly end
	default:
		_ = c.ends[d].CloseWrite() // it may be closed
	}
	reading.Wait()
}

// read reads until the connection ends, and closes chunks.
func read(c *pair, from io.Reader, chunks chan<- chunk) {
	defer close(chunks)
	for {
		buffer := make([]byte, chunkBytes)
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case chunks <- chunk{buffer[:n], time.Now()}:
			case <-c.over:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hold keeps a chunk for as long as its direction's shape says, and damages it
// if it says so; false when the connection ended meanwhile.
func (p *proxy) hold(c *pair, d direction, k chunk) bool {
	begun := time.Now()
	for {
		p.mu.Lock()
		s, changed := p.shapes[d], p.changed
		p.mu.Unlock()
		wait := s.latency - time.Since(k.read)
		if s.bytesPerSecond > 0 {
			size := time.Duration(len(k.bytes)) * time.Second
			wait = max(wait, size/time.Duration(s.bytesPerSecond)-time.Since(begun))
		}
		if s.paused {
			wait = never
		}
		if wait <= 0 {
			if s.flipped {
				k.bytes[rand.IntN(len(k.bytes))] ^= 1 << rand.IntN(8)
			}
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-c.over:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}

// set says how a direction is treated from now on, what is held back included.
func (p *proxy) set(d direction, s shape) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shapes[d] = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// each does something with every connection.
func (p *proxy) each(do func(*pair)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		do(c)
	}
}

// reset breaks all connections, as a firewall that lost its memory does.
func (p *proxy) reset() {
	p.each(func(c *pair) {
		for _, end := range c.ends {
			_ = end.SetLinger(0) // it may be closed
		}
		c.end()
	})
}

// halfClose tells the one side that the other will send nothing more, and
// leaves the connections open.
func (p *proxy) halfClose(d direction) {
	p.each(func(c *pair) { _ = c.ends[d].CloseWrite() }) // it may be closed
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.each((*pair).end)
	p.life.Wait()
}
