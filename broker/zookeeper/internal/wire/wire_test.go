//go:build e2e

package wire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

var open = []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}

func now() time.Duration { return time.Since(start) }

var start = time.Now()

func dial(t *testing.T, address string, change ...func(*wire.Config)) *wire.Conn {
	t.Helper()
	config := wire.Config{Address: address, Timeout: 4 * time.Second, Now: now}
	for _, f := range change {
		f(&config)
	}
	c, err := wire.Dial(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func do(t *testing.T, c *wire.Conn, r wire.Request) wire.Reply {
	t.Helper()
	reply, err := c.Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestConn_SpeaksToARealServer(t *testing.T) {
	server := zktest.Start(t, zktest.Options{})
	events := make(chan wire.Event, 100)
	c := dial(t, server.Address(), func(config *wire.Config) { config.Events = func(e wire.Event) { events <- e } })
	do(t, c, wire.AddWatch("/a"))
	reply := do(t, c, wire.Multi([]wire.Op{
		wire.Create("/a", []byte("1"), wire.Persistent, open), wire.Create("/a/b", []byte("2"), wire.Ephemeral, open),
		wire.SetData("/a", []byte("3"), 0), wire.Check("/a", 1), wire.Create("/c", nil, wire.Persistent, open), wire.Delete("/c", wire.AnyVersion),
	}))
	if i, code := reply.Failed(); i >= 0 || reply.Results[2].Stat.Mzxid != reply.Zxid {
		t.Fatalf("operation %d: %v; zxid %d, %+v", i, code, reply.Zxid, reply.Results)
	}
	read := do(t, c, wire.MultiRead([]wire.Read{wire.GetData("/a"), wire.GetData("/missing"), wire.GetChildren("/a"), wire.GetData("/a/b")}))
	r := read.Results
	if string(r[0].Data) != "3" || r[0].Stat.EphemeralOwner != 0 || r[1].Code != wire.CodeNoNode ||
		len(r[2].Children) != 1 || r[3].Stat.EphemeralOwner != c.Session() || read.Zxid < reply.Zxid {
		t.Errorf("read %+v", read)
	}
	for _, want := range []wire.Event{{Type: wire.EventCreated, Path: "/a"}, {Type: wire.EventCreated, Path: "/a/b"}, {Type: wire.EventDataChanged, Path: "/a"}} {
		if got := <-events; got != want {
			t.Errorf("event %+v, want %+v", got, want)
		}
	}
	failed := do(t, c, wire.Multi([]wire.Op{wire.Check("/a", 1), wire.Check("/a", 7), wire.Delete("/a/b", 0)}))
	if i, code := failed.Failed(); i != 1 || code != wire.CodeBadVersion {
		t.Errorf("operation %d failed with %v: %+v", i, code, failed)
	}
	if _, err := c.Do(t.Context(), wire.Single(wire.Delete("/a", wire.AnyVersion))); !errors.Is(err, wire.CodeNotEmpty) {
		t.Errorf("deleting a znode with children: %v", err)
	}
	do(t, c, wire.Single(wire.Delete("/a/b", wire.AnyVersion)))
	if got, want := <-events, (wire.Event{Type: wire.EventDeleted, Path: "/a/b"}); got != want {
		t.Errorf("event %+v, want %+v", got, want)
	}
	do(t, c, wire.Sync())
	do(t, c, wire.CloseSession())
	if again, err := wire.Dial(t.Context(), wire.Config{Address: server.Address(), Timeout: time.Second, Now: now,
		Session: c.Session(), Password: c.Password()}); !errors.Is(err, wire.ErrExpired) {
		t.Errorf("resuming a session that was closed: %v, %v", again, err)
	}
}

func TestConn_EventsComeBeforeTheRepliesThatShowTheChange(t *testing.T) {
	server := zktest.Start(t, zktest.Options{})
	seen := 0 // by the one goroutine that delivers
	c := dial(t, server.Address(), func(config *wire.Config) { config.Events = func(wire.Event) { seen++ } })
	do(t, c, wire.AddWatch("/"))
	const n = 500
	wrong := make(chan int, n)
	for i := range n {
		c.Send(wire.Single(wire.Create("/x"+string(rune('0'+i%10))+time.Duration(i).String(), nil, wire.Persistent, open)), func(_ wire.Reply, err error) {
			if err != nil || seen != i+1 {
				wrong <- seen - i - 1
			}
			if i == n-1 {
				close(wrong)
			}
		})
	}
	for off := range wrong {
		t.Errorf("%d events more than changes", off)
	}
}

func TestConn_TellsWhatWasNeverSentFromWhatMayHaveBeenApplied(t *testing.T) {
	server := zktest.Start(t, zktest.Options{})
	c := dial(t, server.Address())
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Do(ctx, wire.Single(wire.Create("/a", nil, wire.Persistent, open)))
	if !wire.MaybeApplied(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request without an answer: %v", err)
	}
	<-c.Ended()
	if !errors.Is(c.Err(), wire.ErrSilent) {
		t.Errorf("the connection to a frozen server ended with %v", c.Err())
	}
	if _, err := c.Do(t.Context(), wire.Sync()); wire.MaybeApplied(err) || !errors.Is(err, wire.ErrSilent) {
		t.Errorf("a request on a connection that is over: %v", err)
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
}

func TestConn_ResumesASession(t *testing.T) {
	server := zktest.Start(t, zktest.Options{})
	c := dial(t, server.Address())
	do(t, c, wire.Single(wire.Create("/e", nil, wire.Ephemeral, open)))
	c.Close()
	again := dial(t, server.Address(), func(config *wire.Config) { config.Session, config.Password = c.Session(), c.Password() })
	if got := do(t, again, wire.MultiRead([]wire.Read{wire.GetData("/e")})).Results[0]; got.Stat.EphemeralOwner != again.Session() {
		t.Errorf("the ephemeral znode is %+v", got)
	}
}
