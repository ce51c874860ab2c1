package conns

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a connection from an address that remembers whether it was closed.
type fake struct {
	net.Conn
	from   string
	closed bool
}

func (f *fake) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(f.from), Port: 1} }
func (f *fake) Close() error         { f.closed = true; return nil }

// crypt is one over another.
type crypt struct{ *fake }

func (c crypt) NetConn() net.Conn { return c.fake }
func (crypt) Close() error        { return io.ErrNoProgress }

func TestBound_OneTooManyTakesThePlaceOfTheOneThatIsIdleForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(8)
		opened := func(from string) *fake {
			f := &fake{from: from}
			b.Track(f, http.StateNew)
			time.Sleep(time.Second)
			return f
		}
		conns := []*fake{opened("10.0.0.1"), opened("10.0.0.1"), opened("10.0.0.1"), opened("10.0.0.1")}
		b.Track(conns[0], http.StateActive)
		b.Track(conns[1], http.StateActive)
		b.Track(conns[1], http.StateIdle)
		closed := func() (text string) {
			for i, c := range conns {
				if c.closed {
					text += fmt.Sprint(i, " ")
				}
			}
			return text
		}
		conns = append(conns, opened("10.0.0.1"))
		if got := closed(); got != "2 " {
			t.Errorf("closed are %q, want the third: the first is busy, and the second was so later", got)
		}
		for _, from := range []string{"10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
			conns = append(conns, opened(from))
		}
		if got := closed(); got != "2 " {
			t.Errorf("closed are %q with as many as may be", got)
		}
		conns = append(conns, opened("10.0.0.5"))
		if got := closed(); got != "2 3 " {
			t.Errorf("closed are %q, want one more of the address that has most", got)
		}
		for _, c := range conns {
			b.Track(c, http.StateActive)
		}
		conns = append(conns, opened("10.0.0.6"))
		if got := closed(); got != "2 3 10 " {
			t.Errorf("closed are %q, want the newest, as all others are busy", got)
		}
		for _, c := range conns {
			b.Track(c, http.StateClosed)
		}
		if len(b.open) != 0 || len(b.of) != 0 {
			t.Errorf("%d connections are left, of %d addresses", len(b.open), len(b.of))
		}
	})
}

func TestBound_ClosesWhatIsBelowTLS(t *testing.T) {
	b := New(2)
	first, second := crypt{&fake{from: "10.0.0.1"}}, crypt{&fake{from: "10.0.0.1"}}
	b.Track(first, http.StateNew)
	b.Track(second, http.StateNew)
	if !first.closed || second.closed {
		t.Errorf("closed are %t, %t", first.closed, second.closed)
	}
}

func TestBound_IsBelowTheLimitOfFiles(t *testing.T) {
	files, known := filesMax()
	if !known {
		t.Skip("it is not known here")
	}
	if got := New(0).max; got < 2 || got > mostDefault || files > 8 && uint64(got) > files/4 {
		t.Errorf("%d connections with %d files", got, files)
	}
}
