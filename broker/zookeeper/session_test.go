//go:build e2e

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// Others may end a session: who has its password can close it, and an operator can delete
// its znode.
func TestSession_EndedByOthersIsExpired(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	for name, end := range map[string]func(*testing.T, *Broker, broker.SessionID){
		"closed": func(t *testing.T, b *Broker, id broker.SessionID) {
			password := b.sessions[id].password
			thief := plain(t, server.Address(), func(c *wire.Config) { c.Session, c.Password = int64(id), password })
			ask(t, thief, wire.CloseSession())
		},
		"deleted": func(t *testing.T, b *Broker, id broker.SessionID) {
			ask(t, plain(t, server.Address()), wire.Single(wire.Delete(b.layout.session(id), wire.AnyVersion)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := openTest(t, testConfig(server.Address()))
			s := mustGrant(t, b, 20*time.Second)
			r := mustCommit(t, b, putSession("/ns/nodes/n/info", s.ID))[0]
			end(t, b, s.ID)
			if _, err := b.KeepAlive(t.Context(), s.ID); !errors.Is(err, broker.ErrSessionExpired) {
				t.Errorf("KeepAlive: %v", err)
			}
			for batch, err := range b.Watch(t.Context(), "/ns/nodes/", r.Revision+1) {
				if err != nil {
					t.Fatal(err)
				}
				if len(batch.Events) > 0 {
					if e := batch.Events[0]; !e.Deleted || e.KV.Key != "/ns/nodes/n/info" {
						t.Errorf("event %+v", e)
					}
					break
				}
			}
			if r := b.Commit(t.Context(), putSession("/ns/nodes/n/info", s.ID))[0]; !errors.Is(r.Err, broker.ErrSessionExpired) {
				t.Errorf("Commit: %v", r.Err)
			}
		})
	}
}

// Pings keep a session alive only while somebody renews it.
func TestSession_ThatNobodyRenewsEnds(t *testing.T) {
	_, _, b := startTest(t)
	s := mustGrant(t, b, time.Second)
	conn := b.sessions[s.ID].conn
	select {
	case <-conn.Ended():
	case <-time.After(patience):
		t.Fatal("the server has not ended it")
	}
	if _, err := b.KeepAlive(t.Context(), s.ID); !errors.Is(err, broker.ErrSessionExpired) {
		t.Errorf("KeepAlive: %v", err)
	}
}

func TestSession_HandedOnKeepsItsTTL(t *testing.T) {
	_, config, b := startTest(t)
	other := openTest(t, config)
	s := mustGrant(t, b, 20*time.Second)
	if ttl, err := other.KeepAlive(t.Context(), s.ID); err != nil || ttl < s.TTL {
		t.Errorf("KeepAlive through the other: %v, %v, want %v", ttl, err, s.TTL)
	}
	mustCommit(t, other, putSession("/a", s.ID))
	if ttl, err := b.KeepAlive(t.Context(), s.ID); err != nil || ttl < s.TTL {
		t.Errorf("KeepAlive through the first: %v, %v, want %v", ttl, err, s.TTL)
	}
}

func TestSession_SurvivesItsConnection(t *testing.T) {
	_, _, b := startTest(t)
	s := mustGrant(t, b, 20*time.Second)
	mustCommit(t, b, putSession("/a", s.ID))
	for i := range 3 {
		b.sessions[s.ID].conn.Close()
		if _, err := b.KeepAlive(t.Context(), s.ID); err != nil {
			t.Errorf("KeepAlive: %v", err)
		}
		b.sessions[s.ID].conn.Close()
		key := fmt.Sprintf("/b%d", i)
		mustCommit(t, b, broker.Txn{If: []broker.Cond{broker.Exists("/a")}, Then: []broker.Op{broker.PutSession(key, nil, s.ID)}})
	}
}

// Servers limit the timeout that is requested.
func TestSession_TTLIsWhatTheServerGrants(t *testing.T) {
	_, _, b := startTest(t)
	const most = 20 * testTick // and the least is 2
	for asked, want := range map[time.Duration]time.Duration{
		time.Hour:        most - testTick/2 - most/sessionPings,
		time.Second:      time.Second,
		time.Millisecond: 2*testTick - testTick/2 - 2*testTick/sessionPings,
	} {
		s, err := b.Grant(t.Context(), "", asked)
		if err != nil || s.TTL < want || s.TTL > want+5*time.Millisecond {
			t.Errorf("asked for %v, got %v, %v, want %v", asked, s.TTL, err, want)
		}
		if err := b.Revoke(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
}

// A transaction with several sessions takes several steps; only the last is visible.
func TestCommit_KeysOfSeveralSessionsAppearTogether(t *testing.T) {
	_, config, b := startTest(t)
	other := openTest(t, config)
	var ids [3]broker.SessionID
	for i := range ids {
		ids[i] = mustGrant(t, b, 20*time.Second).ID
	}
	_, from := mustList(t, other, "/s/")
	r := mustCommit(t, b, broker.Txn{If: []broker.Cond{broker.Absent("/s/1")}, Then: []broker.Op{
		broker.PutSession("/s/0", []byte("0"), ids[0]), broker.PutSession("/s/1", []byte("1"), ids[1]), broker.PutSession("/s/2", []byte("2"), ids[2])}})[0]
	for batch, err := range other.Watch(t.Context(), "/s/", from+1) {
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Events) == 0 {
			continue
		}
		for i, e := range batch.Events {
			if e.KV.Session != ids[i] || e.KV.Created != r.Revision || e.KV.Modified != r.Revision {
				t.Errorf("event %d: %+v, want session %x and revision %d", i, e, ids[i], r.Revision)
			}
		}
		if len(batch.Events) != 3 {
			t.Errorf("a batch has %d of the 3 keys", len(batch.Events))
		}
		break
	}
	kvs, _ := mustList(t, other, "/s/")
	if len(kvs) != 3 || slices.ContainsFunc(kvs, func(kv broker.KV) bool { return kv.Created != r.Revision }) {
		t.Errorf("listed are %+v", kvs)
	}
}

// A plain client finds keys at their own paths, with their values unchanged.
func TestLayout_ReadBackWithAPlainClient(t *testing.T) {
	server, config, b := startTest(t)
	s := mustGrant(t, b, 20*time.Second)
	mustCommit(t, b,
		broker.Txn{Then: []broker.Op{broker.Put("/ns/tasks/a", []byte(`{"type":"x"}`)), broker.Put("/ns/tasks/a/props", []byte("{}"))}},
		broker.Txn{Then: []broker.Op{broker.PutSession("/ns/nodes/n1/info", []byte("{}"), s.ID)}}, put("/ns/state/a|b", []byte("s")), put("/ns/elections/_e/%", []byte("\x00odd")), put("/zookeeper/x", nil))
	for path, want := range map[string]string{
		"/ns/tasks/_b2c/a":       `{"type":"x"}`,
		"/ns/tasks/_b2c/a/props": "{}",
		"/ns/nodes/n1/info":      "{}",
		"/ns/nodes/n1":           "\x00",
		"/ns/state/_bd6/a|b":     "s",
		"/ns/elections/%5Fe/%25": "\x00\x00odd",
		"/%7Aookeeper/x":         "",
	} {
		r := read(t, server, config.Chroot+path)
		if r.Code != wire.CodeOK || string(r.Data) != want {
			t.Errorf("%s: %q, %v, want %q", path, r.Data, r.Code, want)
		}
	}
	info := read(t, server, config.Chroot+"/ns/nodes/n1/info")
	if broker.SessionID(info.Stat.EphemeralOwner) != s.ID {
		t.Errorf("the key of session %x is owned by %x", s.ID, info.Stat.EphemeralOwner)
	}
}

func TestWatch_SeesWhatOtherProgramsDo(t *testing.T) {
	server, config, b := startTest(t)
	first := mustCommit(t, b, put("/ns/a", []byte("1")), put("/ns/b", nil))[0].Revision
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hand := plain(t, server.Address())
	steps := []struct {
		do   wire.Op
		want broker.Event
	}{
		{wire.SetData(config.Chroot+"/ns/a", []byte("2"), wire.AnyVersion), broker.Event{KV: broker.KV{Key: "/ns/a", Value: []byte("2")}}},
		{wire.Delete(config.Chroot+"/ns/b", wire.AnyVersion), broker.Event{Deleted: true, KV: broker.KV{Key: "/ns/b"}}},
		{wire.Create(config.Chroot+"/ns/c", []byte("3"), wire.Persistent, everyone), broker.Event{KV: broker.KV{Key: "/ns/c", Value: []byte("3")}}},
	}
	n := -2 // two puts of our own come first
	for batch, err := range b.Watch(ctx, "/ns/", first) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			if n >= 0 {
				if want := steps[n].want; e.Deleted != want.Deleted || e.KV.Key != want.KV.Key || string(e.KV.Value) != string(want.KV.Value) {
					t.Errorf("event %d is %+v, want %+v", n, e, want)
				}
			}
			n++
			if n == len(steps) {
				return
			}
			if n >= 0 {
				ask(t, hand, wire.Single(steps[n].do))
			}
		}
	}
}

func TestBroker_ATickThatIsLongerThanWasSaidIsNoticed(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: 4 * time.Second})
	b := openTest(t, Config{Servers: []string{server.Address()}, Chroot: "/tick", TickTime: time.Second})
	if b.tick() != 4*time.Second {
		t.Errorf("the tick is taken to be %v", b.tick())
	}
	session := mustGrant(t, b, 20*time.Second)
	if timeout := b.sessions[session.ID].timeout; timeout < session.TTL+2*time.Second {
		t.Errorf("of a timeout of %v a TTL of %v is promised", timeout, session.TTL)
	}
}
