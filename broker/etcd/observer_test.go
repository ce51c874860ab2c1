package etcd

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

const testFolder = "/ns/sessions/"

// session returns the keys of a session in a listing. A revision of zero leaves a key out.
func session(id broker.SessionID, lease, pulse broker.Revision) (kvs []broker.KV) {
	if lease != 0 {
		kvs = append(kvs, broker.KV{Key: sessionkey.Of(testFolder, id, sessionkey.Lease), Value: []byte("10s"), Modified: lease, Session: id})
	}
	if pulse != 0 {
		kvs = append(kvs, broker.KV{Key: sessionkey.Of(testFolder, id, sessionkey.Pulse), Modified: pulse, Session: id})
	}
	return kvs
}

func TestObserver_S2_EndsWhatHasNotMovedForAWholeTTLOfItsOwnSight(t *testing.T) {
	type ids = []broker.SessionID
	steps := []struct {
		name                     string
		at                       time.Duration
		lease, pulse             broker.Revision
		silent, ended, pulseless ids
		next                     time.Duration
	}{
		{"the first sight says nothing of how long", 0, 1, 1, nil, nil, nil, 10 * time.Second},
		{"not yet a TTL", 9999 * time.Millisecond, 1, 1, nil, nil, nil, 10 * time.Second},
		{"a TTL", 10 * time.Second, 1, 1, ids{7}, nil, nil, 0},
		{"still, when ending it has failed", 11 * time.Second, 1, 1, ids{7}, nil, nil, 0},
		{"renewed after all", 12 * time.Second, 1, 5, nil, nil, nil, 22 * time.Second},
		{"renewed", 21 * time.Second, 1, 6, nil, nil, nil, 31 * time.Second},
		{"without a pulse", 40 * time.Second, 1, 0, nil, nil, ids{7}, 0},
		{"still without one", 80 * time.Second, 1, 0, nil, nil, ids{7}, 0},
		{"asked", 81 * time.Second, 1, 6, nil, nil, nil, 91 * time.Second},
		{"and no answer", 91 * time.Second, 1, 6, ids{7}, nil, nil, 0},
		{"ended by somebody", 92 * time.Second, 0, 6, nil, ids{7}, nil, 0},
		{"gone", 93 * time.Second, 0, 0, nil, nil, nil, 0},
	}
	o := &observer{folder: testFolder}
	began := time.Now()
	for _, step := range steps {
		f := o.look(session(7, step.lease, step.pulse), began.Add(step.at))
		got := []ids{f.silent, f.ended, f.pulseless}
		if diff := cmp.Diff([]ids{step.silent, step.ended, step.pulseless}, got); diff != "" {
			t.Errorf("%s: silent, ended, pulseless: %s", step.name, diff)
		}
		next := time.Duration(0)
		if !f.next.IsZero() {
			next = f.next.Sub(began)
		}
		if next != step.next {
			t.Errorf("%s: the next is due at %v, want %v", step.name, next, step.next)
		}
	}
}

// TestObserver_WhatIsNoSessionIsLeftAlone has other keys in the folder, and an invalid TTL.
func TestObserver_WhatIsNoSessionIsLeftAlone(t *testing.T) {
	unreadable := session(8, 1, 1)
	unreadable[0].Value = []byte("soon")
	kvs := append(session(7, 1, 1), unreadable...)
	for _, key := range []string{"x", "0000000000000007", "0000000000000007/other", "7/lease", "000000000000000g/lease", "a/0000000000000007/lease/b"} {
		kvs = append(kvs, broker.KV{Key: testFolder + key, Modified: 1})
	}
	o := &observer{folder: testFolder}
	began := time.Now()
	o.look(kvs, began)
	f := o.look(kvs, began.Add(time.Hour))
	if diff := cmp.Diff([]broker.SessionID{7}, f.silent); diff != "" || len(f.ended)+len(f.pulseless) != 0 {
		t.Errorf("%+v", f)
	}
	if diff := cmp.Diff(map[broker.SessionID]bool{7: true, 8: true}, f.there); diff != "" {
		t.Error(diff)
	}
}

// TestObserver_S2_AListingThatIsDamagedEndsNobody flips each bit of each key and value of a
// listing once, as may happen without TLS.
func TestObserver_S2_AListingThatIsDamagedEndsNobody(t *testing.T) {
	store := memory.New()
	defer store.Close()
	b := store.Broker()
	began := time.Now()
	write(t, b, session7(sessionkey.Lease, sessionkey.Pulse))
	whole := listing(t, b)
	for i, kv := range whole {
		for bit := range 8 * (len(kv.Key) + len(kv.Value)) {
			damaged := slices.Clone(whole)
			damaged[i] = flipped(kv, bit)
			for _, looks := range [][][]broker.KV{
				{damaged, whole, damaged, whole}, {whole, damaged, damaged, damaged},
			} {
				o := &observer{folder: testFolder}
				for n, kvs := range looks {
					f := o.look(kvs, began.Add(time.Duration(n)*3*time.Second)) // it is younger than its TTL of 10 s
					if over := f.over(b.Commit(t.Context(), leaseless(o.endings(f))...)); len(over) > 0 {
						t.Errorf("%q = %q ended %v", damaged[i].Key, damaged[i].Value, over)
					}
				}
			}
		}
	}
	if left := listing(t, b); len(left) != 2 {
		t.Errorf("left are %v", left)
	}
}

// flipped returns an entry with one bit of its key or value flipped.
func flipped(kv broker.KV, bit int) broker.KV {
	bytes := append([]byte(kv.Key), kv.Value...)
	bytes[bit/8] ^= 1 << (bit % 8)
	kv.Key, kv.Value = string(bytes[:len(kv.Key)]), bytes[len(kv.Key):]
	return kv
}

// leaseless removes the sessions from puts, because the test's store does not have them.
func leaseless(txns []broker.Txn) []broker.Txn {
	for _, txn := range txns {
		for n := range txn.Then {
			txn.Then[n].Session = 0
		}
	}
	return txns
}

// TestObserver_EndsNothingThatHasMovedSinceItWasSeen has changes between a listing and the
// transactions that follow from it.
func TestObserver_EndsNothingThatHasMovedSinceItWasSeen(t *testing.T) {
	for _, test := range []struct {
		name string
		// before puts the keys that are listed, since changes them afterwards.
		before, since []broker.Op
		// lease and pulse report whether these keys exist in the end.
		lease, pulse bool
	}{
		{"nothing", session7(sessionkey.Lease, sessionkey.Pulse), nil, false, true},
		{"a renewal", session7(sessionkey.Lease, sessionkey.Pulse), session7(sessionkey.Pulse), true, true},
		{"a renewal without space", session7(sessionkey.Lease, sessionkey.Pulse), []broker.Op{broker.Delete(sessionkey.Of(testFolder, 7, sessionkey.Pulse))}, true, false},
		{"its end", session7(sessionkey.Lease, sessionkey.Pulse), []broker.Op{broker.DeleteTree(testFolder)}, false, false},
		{"nothing, without a pulse", session7(sessionkey.Lease), nil, true, true},
		{"its end, without a pulse", session7(sessionkey.Lease), []broker.Op{broker.DeleteTree(testFolder)}, false, false},
	} {
		store := memory.New()
		b := store.Broker()
		o := &observer{folder: testFolder}
		began := time.Now()
		write(t, b, test.before)
		o.look(listing(t, b), began)
		f := o.look(listing(t, b), began.Add(10*time.Second))
		write(t, b, test.since)
		for i, txn := range leaseless(o.endings(f)) {
			if _, err := broker.CommitOne(t.Context(), b, txn); err != nil {
				t.Errorf("%s: %d: %v", test.name, i, err)
			}
		}
		var there []string
		for _, kv := range listing(t, b) {
			_, _, name, _ := sessionkey.Parse(kv.Key)
			there = append(there, name)
		}
		if slices.Contains(there, sessionkey.Lease) != test.lease || slices.Contains(there, sessionkey.Pulse) != test.pulse {
			t.Errorf("%s: left are %q", test.name, there)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// session7 puts keys of a session.
func session7(names ...string) (ops []broker.Op) {
	for _, name := range names {
		var value []byte
		if name == sessionkey.Lease {
			value = []byte("10s")
		}
		ops = append(ops, broker.Put(sessionkey.Of(testFolder, 7, name), value))
	}
	return ops
}

func write(t *testing.T, b broker.Broker, ops []broker.Op) {
	t.Helper()
	if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: ops}); err != nil {
		t.Fatal(err)
	}
}

// listing returns the keys of the folder, with the lease that they have in etcd.
func listing(t *testing.T, b broker.Broker) []broker.KV {
	t.Helper()
	kvs, _, err := broker.Collect(t.Context(), b, testFolder)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kvs {
		kvs[i].Session = 7
	}
	return kvs
}

func TestSessionKeysAreReadAsTheyAreWritten(t *testing.T) {
	for _, id := range []broker.SessionID{1, 1 << 40, -1} {
		for _, name := range []string{sessionkey.Lease, sessionkey.Pulse} {
			folder, parsed, part, ok := sessionkey.Parse(sessionkey.Of(testFolder, id, name))
			if folder != testFolder || parsed != id || part != name || !ok {
				t.Errorf("%d %s: %q %d %q %t", id, name, folder, parsed, part, ok)
			}
		}
	}
}
