// Package conns bounds the connections to an HTTP server. Each takes a file, and a process
// that has no files left fails where nobody expects it: a store that cannot write its log
// ends the process.
package conns

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Bound keeps connections to a number, and those of one address to half of it. One too many
// takes the place of that which has been idle for longest, of its own address or, where all
// together are too many, of the address that has most; where none is idle, it is closed
// itself. Track belongs into http.Server.ConnState.
type Bound struct {
	max int

	mu   sync.Mutex
	open map[net.Conn]*conn
	// of counts the connections of each address.
	of map[string]int
}

type conn struct {
	address string
	// idle is since when it has no request under way, zero while it has.
	idle time.Time
}

// mostDefault is how many connections a server has at most, whatever files it may have.
const mostDefault = 1024

// New returns a bound of so many connections, at least two; zero stands for a quarter of
// the files that this process may have open, and at most 1024.
func New(most int) *Bound {
	if most == 0 {
		most = mostDefault
		if files, known := filesMax(); known {
			most = int(min(uint64(most), files/4))
		}
	}
	return &Bound{max: max(most, 2), open: map[net.Conn]*conn{}, of: map[string]int{}}
}

// Track takes notice of what becomes of a connection.
func (b *Bound) Track(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateNew:
		address := addressOf(c)
		b.open[c] = &conn{address: address, idle: time.Now()}
		b.of[address]++
		switch {
		case b.of[address] > b.max/2:
			b.closeIdle(c, address)
		case len(b.open) > b.max:
			b.closeIdle(c, b.crowd())
		}
	case http.StateActive:
		if k := b.open[c]; k != nil {
			k.idle = time.Time{}
		}
	case http.StateIdle:
		if k := b.open[c]; k != nil {
			k.idle = time.Now()
		}
	case http.StateClosed, http.StateHijacked:
		b.forget(c)
	}
}

// crowd is the address that has most connections.
func (b *Bound) crowd() (address string) {
	for a, n := range b.of {
		if n > b.of[address] {
			address = a
		}
	}
	return address
}

// closeIdle closes the connection of an address that has been idle for longest, or the newest
// one where none is.
func (b *Bound) closeIdle(newest net.Conn, address string) {
	victim := newest
	for c, k := range b.open {
		if k.address == address && c != newest && !k.idle.IsZero() && (victim == newest || k.idle.Before(b.open[victim].idle)) {
			victim = c
		}
	}
	b.forget(victim)
	if t, ok := victim.(interface{ NetConn() net.Conn }); ok {
		victim = t.NetConn() // TLS would say farewell first, for as long as the other side lets it
	}
	_ = victim.Close() // it is given up either way
}

func (b *Bound) forget(c net.Conn) {
	k := b.open[c]
	if k == nil {
		return
	}
	delete(b.open, c)
	if b.of[k.address]--; b.of[k.address] == 0 {
		delete(b.of, k.address)
	}
}

func addressOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().String()
	}
	return host
}
