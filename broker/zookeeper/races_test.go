//go:build e2e

package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// ZooKeeper's opcodes of the requests that traps wait for.
const (
	wireGetChildren = 8
	wireCheck       = 13
	wireMulti       = 14
	wireMultiRead   = 22
)

// trap calls act once, just before the first request that matches goes to the network.
type trap struct {
	match func(op uint32, frame []byte) bool
	act   func()
	done  atomic.Bool
}

// traps dials connections on which a trap can be set.
type traps struct{ set atomic.Pointer[trap] }

func (s *traps) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return trapped{conn, s}, err
}

type trapped struct {
	net.Conn
	traps *traps
}

// Write takes whole frames: a length, a number, an opcode.
func (c trapped) Write(p []byte) (int, error) {
	for rest := p; len(rest) >= 12; {
		n := min(len(rest), 4+int(binary.BigEndian.Uint32(rest)))
		if s := c.traps.set.Load(); s != nil && s.match(binary.BigEndian.Uint32(rest[8:]), rest[:n]) && s.done.CompareAndSwap(false, true) {
			s.act()
		}
		rest = rest[n:]
	}
	return c.Conn.Write(p)
}

// before sets a trap for the first request of a kind that names a path.
func (s *traps) before(op uint32, path string, act func()) *trap {
	made := &trap{act: act, match: func(o uint32, frame []byte) bool { return o == op && bytes.Contains(frame, []byte(path)) }}
	s.set.Store(made)
	return made
}

// race is two brokers on one chroot, of which one interrupts the other.
type race struct {
	traps       traps
	slow, other *Broker
	server      *zktest.Server
	// watched is a revision from before anything happened below /n/.
	watched broker.Revision
}

func startRace(t *testing.T, server *zktest.Server) *race {
	t.Helper()
	r := &race{server: server}
	config := testConfig(server.Address())
	config.RequestTimeout = 5 * time.Second
	r.other = openTest(t, config)
	config.Dial = r.traps.dial
	r.slow = openTest(t, config)
	_, r.watched = mustList(t, r.other, "/n/")
	return r
}

// followed compares the changes that were watched below /n/ with a listing.
func (r *race) followed(t *testing.T) {
	t.Helper()
	last := mustCommit(t, r.other, put("/n/last", nil))[0].Revision
	kvs, _ := mustList(t, r.other, "/n/")
	want := map[string]broker.Revision{}
	for _, kv := range kvs {
		want[kv.Key] = kv.Created
	}
	got := map[string]broker.Revision{}
	for batch, err := range r.other.Watch(t.Context(), "/n/", r.watched+1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			if got[e.KV.Key] = e.KV.Created; e.Deleted {
				delete(got, e.KV.Key)
			}
		}
		if batch.Revision >= last {
			break
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the watch leaves %v, the listing has %v", got, want)
	}
}

func TestRaces_OfTwoBrokersOnOneChroot(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	for name, test := range map[string]func(*testing.T, *race){
		"a key that became a directory is not there":               keyBecomesDirectory,
		"a key that becomes a directory is not put":                keyBecomesDirectoryAndIsPut,
		"a key below a deleted tree is as the condition says":      treeChangesAfterTheLook,
		"a directory that became a key is deleted as a key":        directoryBecomesKeyInATree,
		"a key that came anew has its own creation":                keyComesAnewAndChangesItsSession,
		"a directory that became a key is not swept":               directoryBecomesKeyInASweep,
		"a directory that is gone is made for several sessions":    directoryGoneForSeveralSessions,
		"what cannot be read costs the history, not the truth":     unreadableZnode,
		"a key of a session is refused only by a look of now":      refusedAbove,
		"a key below one of a session is refused by one of now":    refusedBelow,
		"subtrees of two sessions are refused, not tried for ever": treesOfTwoSessions,
	} {
		t.Run(name, func(t *testing.T) { test(t, startRace(t, server)) })
	}
}

// Before the multi of a transaction that requires a key, the key is replaced by a directory
// of the same version.
func keyBecomesDirectory(t *testing.T, r *race) {
	for i, cond := range []func(string, broker.Revision) broker.Cond{broker.Created, broker.Modified,
		func(key string, _ broker.Revision) broker.Cond { return broker.Exists(key) }} {
		key := "/n/k" + string(rune('0'+i))
		there := mustCommit(t, r.other, put(key, nil), put("/n/else/there", nil))[0].Revision
		r.traps.before(wireMulti, "/n/else/new", func() {
			mustCommit(t, r.other, remove(key))
			mustCommit(t, r.other, put(key+"/below", nil))
		})
		result := r.slow.Commit(t.Context(), broker.Txn{If: []broker.Cond{cond(key, there)}, Then: []broker.Op{broker.Put("/n/else/new", nil)}})[0]
		if result.Err != nil || result.OK {
			t.Errorf("condition %d held although its key was gone: %+v", i, result)
		}
	}
	r.followed(t)
}

func keyBecomesDirectoryAndIsPut(t *testing.T, r *race) {
	mustCommit(t, r.other, put("/n/k", nil))
	r.traps.before(wireMulti, "/n/k", func() {
		mustCommit(t, r.other, remove("/n/k"))
		mustCommit(t, r.other, put("/n/k/below", nil))
	})
	result := mustCommit(t, r.slow, put("/n/k", []byte("new")))[0]
	if kv, err := r.other.Get(t.Context(), "/n/k"); err != nil || kv.Created != result.Revision {
		t.Errorf("%+v, %v; it was created by transaction %d", kv, err, result.Revision)
	}
	r.followed(t)
}

// A key changes after it was read, before its subtree is read.
func treeChangesAfterTheLook(t *testing.T, r *race) {
	there := mustCommit(t, r.other, put("/n/t/x", []byte("old")))[0].Revision
	walks := r.traps.before(wireMultiRead, "/n/t", func() { mustCommit(t, r.other, put("/n/t/x", []byte("new"))) })
	match := walks.match
	walks.match = func(op uint32, frame []byte) bool {
		return match(op, frame) && binary.BigEndian.Uint32(frame[12:]) == wireGetChildren
	}
	result := r.slow.Commit(t.Context(), broker.Txn{If: []broker.Cond{broker.Modified("/n/t/x", there)},
		Then: []broker.Op{broker.DeleteTree("/n/t/")}})[0]
	if !walks.done.Load() || result.Err != nil || result.OK {
		t.Errorf("the tree was deleted although the key had changed: %+v", result)
	}
	r.followed(t)
}

// An empty directory in a subtree to be deleted is replaced by a key.
func directoryBecomesKeyInATree(t *testing.T, r *race) {
	mustCommit(t, r.other, put("/n/t/d/x", nil), put("/n/t/y", nil))
	mustCommit(t, r.other, remove("/n/t/d/x"))
	sprung := r.traps.before(wireMulti, "/n/t/y", func() {
		mustCommit(t, r.other, removeTree("/n/t/d/"))
		mustCommit(t, r.other, put("/n/t/d", nil))
	})
	mustCommit(t, r.slow, removeTree("/n/t/"))
	if !sprung.done.Load() {
		t.Error("nothing came between")
	}
	r.followed(t)
}

// An empty directory to be swept is replaced by a key, before or after it is read last.
func directoryBecomesKeyInASweep(t *testing.T, r *race) {
	for key, moment := range map[string]struct {
		op   uint32
		path string
	}{"/n/d": {wireMulti, "/n/d"}, "/n/e": {wireMultiRead, keyEpochs}} {
		mustCommit(t, r.other, put(key+"/x", nil))
		mustCommit(t, r.other, remove(key+"/x"))
		sprung := r.traps.before(moment.op, moment.path, func() {
			mustCommit(t, r.other, removeTree(key+"/"))
			mustCommit(t, r.other, put(key, nil))
		})
		r.slow.emptied.add(r.slow.layout.path(key))
		r.slow.sweepDirectories(t.Context())
		if _, err := r.other.Get(t.Context(), key); err != nil || !sprung.done.Load() {
			t.Errorf("the key that was put beside the sweep: %v", err)
		}
	}
	r.followed(t)
}

// A key whose session is to change is deleted and put again.
func keyComesAnewAndChangesItsSession(t *testing.T, r *race) {
	mustCommit(t, r.other, put("/n/k", nil))
	id := mustGrant(t, r.slow, 20*time.Second).ID
	var anew broker.Revision
	r.traps.before(wireMulti, "/n/k", func() {
		mustCommit(t, r.other, remove("/n/k"))
		anew = mustCommit(t, r.other, put("/n/k", nil))[0].Revision
	})
	mustCommit(t, r.slow, putSession("/n/k", id))
	if kv, err := r.other.Get(t.Context(), "/n/k"); err != nil || kv.Created != anew || anew == 0 {
		t.Errorf("%+v, %v; it was created at %d", kv, err, anew)
	}
	r.followed(t)
}

// A directory that another broker has deleted is missed when the znodes of further sessions
// are created, too.
func directoryGoneForSeveralSessions(t *testing.T, r *race) {
	mustCommit(t, r.slow, put("/n/p/z", nil))
	mustCommit(t, r.other, removeTree("/n/p/"))
	a, b := mustGrant(t, r.slow, 20*time.Second).ID, mustGrant(t, r.slow, 20*time.Second).ID
	mustCommit(t, r.slow, broker.Txn{Then: []broker.Op{broker.PutSession("/n/p/x", nil, a), broker.PutSession("/n/p/y", nil, b)}})
}

// Another program creates a znode that nobody else may read, and a key.
func unreadableZnode(t *testing.T, r *race) {
	chroot := r.slow.layout.chroot
	secret := []wire.ACL{{Perms: wire.PermAll, Scheme: "digest", ID: "nobody:nothing="}}
	reply := ask(t, plain(t, r.server.Address()), wire.Multi([]wire.Op{
		wire.Create(chroot+"/n", directory, wire.Persistent, everyone), wire.Create(chroot+"/n/secret", nil, wire.Persistent, secret),
		wire.Create(chroot+"/n/open", nil, wire.Persistent, everyone)}))
	if _, code := reply.Failed(); code != wire.CodeOK {
		t.Fatal(code)
	}
	l, err := r.slow.linked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := newFeed(r.slow)
	f.begin(l.conn, reply.Zxid-1)
	for _, path := range []string{"/n/secret", "/n/open"} {
		f.event(wire.Event{Type: wire.EventCreated, Path: chroot + path})
	}
	for f.mark(reply.Zxid); f.round(t.Context()); {
	}
	if v := f.since(1); v.complete >= broker.Revision(reply.Zxid) && len(v.entries) == 0 && v.floor < v.complete {
		t.Errorf("the history is past a key that it does not have: %+v", v)
	}
	f.mark(reply.Zxid + 1)
	for f.round(t.Context()) {
	}
	if v := f.since(1); v.floor < broker.Revision(reply.Zxid) {
		t.Errorf("the history has a gap that it does not report: %+v", v)
	}
}

// wantRefused wants a transaction to be refused after a read behind a barrier. An earlier
// read may be of a server that lags, so it is no reason to refuse.
func (r *race) wantRefused(t *testing.T, txn broker.Txn) {
	t.Helper()
	barrier := r.traps.before(wireMulti, ownDir, func() {})
	match := barrier.match
	barrier.match = func(op uint32, frame []byte) bool {
		return match(op, frame) && binary.BigEndian.Uint32(frame[12:]) == wireCheck
	}
	result := r.slow.Commit(t.Context(), txn)[0]
	if !errors.Is(result.Err, broker.ErrInvalid) || !barrier.done.Load() {
		t.Errorf("%v, behind a barrier: %t", result.Err, barrier.done.Load())
	}
}

func refusedAbove(t *testing.T, r *race) {
	mustCommit(t, r.other, put("/n/a/b", nil))
	r.wantRefused(t, putSession("/n/a", mustGrant(t, r.slow, 20*time.Second).ID))
}

func refusedBelow(t *testing.T, r *race) {
	mustCommit(t, r.other, putSession("/n/a", mustGrant(t, r.other, 20*time.Second).ID))
	r.wantRefused(t, put("/n/a/b", nil))
}

func treesOfTwoSessions(t *testing.T, r *race) {
	mustCommit(t, r.other, put("/n/a", nil), put("/n/b", nil))
	a, b := mustGrant(t, r.slow, 20*time.Second).ID, mustGrant(t, r.slow, 20*time.Second).ID
	result := r.slow.Commit(t.Context(), broker.Txn{Then: []broker.Op{broker.DeleteTree("/n/a/"), broker.DeleteTree("/n/b/"),
		broker.PutSession("/n/a", nil, a), broker.PutSession("/n/b", nil, b)}})[0]
	if !errors.Is(result.Err, broker.ErrInvalid) {
		t.Errorf("%+v", result)
	}
}

// Transactions that were read together conflict, some of them twice, and all of them take
// longer than a single request may.
func TestSlow_ManyTransactionsTakeAsLongAsTheyGetThrough(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	config := testConfig(server.Address())
	config.Dial, config.RequestTimeout = delayed(func() time.Duration { return 20 * time.Millisecond }), time.Second
	b := openTest(t, config)
	txns := make([]broker.Txn, 5000)
	for i := range txns {
		key := fmt.Sprintf("/test/tasks/%d", i)
		txns[i] = broker.Txn{If: []broker.Cond{broker.Absent(key), broker.Absent(key + "/props")}, Then: []broker.Op{broker.Put(key, nil)}}
	}
	failed := 0
	var last error
	for _, r := range b.Commit(t.Context(), txns...) {
		if r.Err != nil {
			failed, last = failed+1, r.Err
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d transactions failed, the last with: %v", failed, len(txns), last)
	}
}
