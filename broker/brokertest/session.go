package brokertest

import (
	"slices"
	"strconv"
	"time"

	"github.com/windlass-go/windlass/broker"
)

var sessionRules = []Rule{
	{Number: "B45", Name: "sessions_are_distinct", test: sessionsDistinct,
		Sentence: "Each session has an ID of its own and at least the TTL asked for, which must be positive."},
	{Number: "B46", Name: "keepalive_keeps_keys", test: keepAliveKeeps,
		Sentence: "A session that is renewed within its TTL keeps its keys."},
	{Number: "B47", Name: "session_expires_whole_and_not_early", test: sessionExpires,
		Sentence: "A session's keys vanish together, not earlier than one TTL after its last renewal was sent, and a watch sees it."},
	{Number: "B48", Name: "revoke_deletes_at_once", test: revokeDeletes,
		Sentence: "Revoke deletes a session's keys before it returns, and no other's; doing it again is no error."},
	{Number: "B49", Name: "dead_session_is_not_renewed", test: deadSession,
		Sentence: "KeepAlive of a session that is gone, or never was, is ErrSessionExpired."},
	{Number: "B50", Name: "dead_session_puts_nothing", test: deadSessionPut,
		Sentence: "A transaction that puts a key on a dead session is refused as a whole with ErrSessionExpired, and harms no other of its call."},
	{Number: "B51", Name: "deleted_keys_leave_their_session", test: deletedKeysLeave,
		Sentence: "A session's end spares a key that was deleted and then put by another."},
}

// expiryMax limits the time after which a session must be gone. Stores check at intervals,
// and extend sessions when their leader changes.
func expiryMax(ttl time.Duration) time.Duration { return 2*ttl + patience }

func sessionsDistinct(t *trial) {
	var ids []broker.SessionID
	for range 5 {
		s := t.grant()
		if slices.Contains(ids, s.ID) {
			t.Errorf("session %d was granted twice", s.ID)
		}
		ids = append(ids, s.ID)
	}
	for _, id := range ids {
		if ttl, err := t.broker.KeepAlive(t.ctx, id); err != nil || ttl < t.opts.MinTTL {
			t.Errorf("KeepAlive of session %d returned %v, %v, want at least %v", id, ttl, err, t.opts.MinTTL)
		}
	}
	for _, ttl := range []time.Duration{0, -time.Second} {
		_, err := t.broker.Grant(t.ctx, t.folder, ttl)
		t.wantKind("Grant of a TTL that is not positive", err, broker.ErrInvalid)
	}
}

func keepAliveKeeps(t *trial) {
	s := t.grant()
	rev := t.write(broker.PutSession(t.prefix+"a", nil, s.ID))
	for range 8 { // two TTLs and a half
		t.quiet("", rev+1, s.TTL*5/16)
		if _, err := t.broker.KeepAlive(t.ctx, s.ID); err != nil {
			t.Fatalf("KeepAlive: %v", err)
		}
	}
	if kv := t.get("a"); kv.Session != s.ID || kv.Modified != rev {
		t.Errorf("the key is %+v, want session %d and revision %d", kv, s.ID, rev)
	}
}

func sessionExpires(t *trial) {
	s, other := t.grant(), t.grant()
	rev := t.write(broker.PutSession(t.prefix+"a/1", nil, s.ID), broker.PutSession(t.prefix+"a/x/2", nil, s.ID))
	t.write(broker.PutSession(t.prefix+"a/3", nil, s.ID))
	last := t.write(broker.Put(t.prefix+"a/4", nil), broker.PutSession(t.prefix+"b", nil, other.ID))
	t.quiet("a/", last+1, s.TTL/2)
	sent := time.Now()
	ttl, err := t.broker.KeepAlive(t.ctx, s.ID)
	if err != nil {
		t.Fatalf("KeepAlive: %v", err)
	}
	deleted := 0
	events := t.follow("a/", rev, expiryMax(ttl), func(b broker.Batch) bool {
		here := 0
		for _, event := range b.Events {
			if event.Deleted {
				here++
			}
		}
		if here != 0 && here != 3 {
			t.Errorf("a batch has the deletion of %d of the session's 3 keys, want all", here)
		}
		deleted += here
		return deleted >= 3
	})
	if lived := time.Since(sent); lived < ttl {
		t.Errorf("the session expired %v after its last renewal was sent, want at least %v", lived, ttl)
	}
	gone := events[len(events)-1].KV.Modified
	for _, event := range events {
		if event.Deleted && event.KV.Modified != gone {
			t.Errorf("%s, another one at %d, want both at one revision", describe(event), gone)
		}
	}
	t.wantAbsent("a/1", "a/x/2", "a/3")
	t.get("a/4")
	_, err = t.broker.KeepAlive(t.ctx, s.ID)
	t.wantKind("KeepAlive after expiry", err, broker.ErrSessionExpired)
	t.revoke(s.ID)
}

func revokeDeletes(t *trial) {
	s, other := t.grant(), t.grant()
	t.write(broker.PutSession(t.prefix+"a/1", nil, s.ID), broker.PutSession(t.prefix+"a/2", nil, s.ID),
		broker.PutSession(t.prefix+"a/other", nil, other.ID), broker.Put(t.prefix+"a/none", nil))
	t.revoke(s.ID)
	t.wantNames("a/", "a/none", "a/other")
	t.revoke(s.ID)
	t.revoke(s.ID ^ 0x5555) // never existed
	t.revoke(t.grant().ID)  // has no keys
}

func deadSession(t *trial) {
	s := t.grant()
	t.revoke(s.ID)
	for what, id := range map[string]broker.SessionID{"revoked": s.ID, "unknown": s.ID ^ 0x5555} {
		_, err := t.broker.KeepAlive(t.ctx, id)
		t.wantKind("KeepAlive of a session that is "+what, err, broker.ErrSessionExpired)
	}
}

func deadSessionPut(t *trial) {
	dead, alive := t.grant(), t.grant()
	t.revoke(dead.ID)
	t.put("tree/x", "")
	p := t.prefix
	var txns []broker.Txn
	for i := range 9 {
		k := p + "k" + strconv.Itoa(i)
		txn := broker.Txn{Then: []broker.Op{broker.Put(k, []byte("1"))}}
		switch i % 3 {
		case 1:
			txn.Then = append(txn.Then, broker.DeleteTree(p+"tree/"), broker.PutSession(k+"/s", nil, dead.ID))
		case 2:
			txn.Then = append(txn.Then, broker.PutSession(k+"s", nil, alive.ID))
		}
		txns = append(txns, txn)
	}
	for i, r := range t.broker.Commit(t.ctx, txns...) {
		what := "transaction " + strconv.Itoa(i)
		if i%3 == 1 {
			wantRefused(t, what, r, broker.ErrSessionExpired)
		} else if r.Err != nil || !r.OK {
			t.Errorf("%s: %+v, want OK", what, r)
		}
	}
	t.wantNames("", "k0", "k2", "k2s", "k3", "k5", "k5s", "k6", "k8", "k8s", "tree/x")
}

func deletedKeysLeave(t *trial) {
	s, other := t.grant(), t.grant()
	for _, name := range []string{"a/1", "a/2", "a/3"} {
		t.write(broker.PutSession(t.prefix+name, nil, s.ID))
	}
	t.write(broker.Delete(t.prefix + "a/1"))
	t.write(broker.DeleteTree(t.prefix + "a/"))
	t.write(broker.Put(t.prefix+"a/1", nil), broker.PutSession(t.prefix+"a/2", nil, other.ID))
	t.revoke(s.ID)
	t.wantNames("", "a/1", "a/2")
}
