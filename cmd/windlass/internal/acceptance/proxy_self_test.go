//go:build e2e && linux

package acceptance

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// echo answers every byte with itself, and the end with the end.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			serving.Go(func() {
				defer conn.Close() // the peer may be gone
				_, _ = io.Copy(conn, conn)
				_ = conn.(*net.TCPConn).CloseWrite()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// through connects to an echo by way of a proxy.
func through(t *testing.T) (*proxy, *net.TCPConn) {
	t.Helper()
	p := startProxy(t, echo(t))
	conn, err := net.Dial("tcp", p.address())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(soon)))
	if got := roundTrip(t, conn, []byte("hello")); string(got) != "hello" {
		t.Fatalf("untouched, it passes on %q", got)
	}
	return p, conn.(*net.TCPConn)
}

func roundTrip(t *testing.T, conn net.Conn, sent []byte) []byte {
	t.Helper()
	_, err := conn.Write(sent)
	must(t, err)
	got := make([]byte, len(sent))
	_, err = io.ReadFull(conn, got)
	must(t, err)
	return got
}

func TestProxy_DelaysThrottlesAndPauses(t *testing.T) {
	p, conn := through(t)
	timed := func(what string, sent int, least time.Duration) {
		t.Helper()
		began := time.Now()
		if got := roundTrip(t, conn, bytes.Repeat([]byte("x"), sent)); bytes.Count(got, []byte("x")) != sent {
			t.Errorf("%s: it passes on %q", what, got)
		}
		if spent := time.Since(began); spent < least {
			t.Errorf("%s: %v, want at least %v", what, spent, least)
		}
	}
	p.set(toBroker, shape{latency: 100 * time.Millisecond})
	p.set(toNode, shape{latency: 50 * time.Millisecond})
	timed("latency", 1, 150*time.Millisecond)
	p.set(toBroker, shape{bytesPerSecond: 10_000})
	p.set(toNode, shape{})
	timed("throttled", 2000, 200*time.Millisecond)
	p.set(toBroker, shape{})
	p.set(toNode, shape{paused: true})
	resume := time.AfterFunc(100*time.Millisecond, func() { p.set(toNode, shape{}) })
	defer resume.Stop()
	timed("paused", 1, 100*time.Millisecond)
}

func TestProxy_ResetsHalfClosesAndFlipsBits(t *testing.T) {
	t.Run("reset", func(t *testing.T) {
		p, conn := through(t)
		p.reset()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v, want a reset", err)
		}
	})
	t.Run("half closed to the node", func(t *testing.T) {
		p, conn := through(t)
		p.halfClose(toNode)
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v, want the end", n, err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Errorf("the other direction: %v", err)
		}
	})
	t.Run("half closed to the broker", func(t *testing.T) {
		p, conn := through(t)
		p.halfClose(toBroker)
		// The echo answers the end with its own.
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v, want the end", n, err)
		}
	})
	t.Run("flipped", func(t *testing.T) {
		p, conn := through(t)
		p.set(toNode, shape{flipped: true})
		if got := roundTrip(t, conn, []byte("hello")); string(got) == "hello" {
			t.Error("nothing was flipped")
		}
	})
}
