package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/session"
)

const sessionsFolder = "/ns/sessions/"

// keeper is a connection with a session and a key on it.
type keeper struct {
	*etcd.Broker
	session broker.Session
	key     string
}

func newKeeper(t *testing.T, s *embedded.Server, key string, ttl time.Duration) *keeper {
	t.Helper()
	k := &keeper{Broker: s.Broker(), key: key}
	k.session = mustGrant(t, k, sessionsFolder, ttl)
	mustCommit(t, k, broker.PutSession(key, nil, k.session.ID))
	return k
}

// renew renews sessions of one TTL for a while.
func renew(t *testing.T, during time.Duration, keepers ...*keeper) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); {
		time.Sleep(keepers[0].session.TTL / 5)
		for _, k := range keepers {
			if ttl, err := k.KeepAlive(t.Context(), k.session.ID); err != nil || ttl != k.session.TTL {
				t.Fatalf("%v, %v", ttl, err)
			}
		}
	}
}

func (k *keeper) there(t *testing.T, b broker.Broker) bool {
	t.Helper()
	_, err := b.Get(t.Context(), k.key)
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// sessionKeys returns the sessions' own keys.
func sessionKeys(t *testing.T, b broker.Broker) (keys []string) {
	t.Helper()
	kvs, _, err := broker.Collect(t.Context(), b, sessionsFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		keys = append(keys, kv.Key)
	}
	return keys
}

// TestSession_ADeadOnesKeysAreDeletedByAnother closes one of two connections.
func TestSession_ADeadOnesKeysAreDeletedByAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		dead, alive := newKeeper(t, s, "/a", 10*time.Second), newKeeper(t, s, "/b", 10*time.Second)
		renew(t, time.Minute, dead, alive)
		last := time.Now()
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		for dead.there(t, alive) {
			if time.Since(last) > 13*time.Second {
				t.Fatalf("its key is there %v after its last renewal", time.Since(last))
			}
			renew(t, 1, alive)
		}
		if lived := time.Since(last); lived < dead.session.TTL {
			t.Errorf("it was ended after %v", lived)
		}
		if keys := sessionKeys(t, alive); len(keys) != 2 || !alive.there(t, alive) {
			t.Errorf("left are %q", keys)
		}
	})
}

// TestSession_OfManyAllThatDieAreEnded has so many sessions that most observe only a few
// others, and closes all but some at the same time.
func TestSession_OfManyAllThatDieAreEnded(t *testing.T) {
	const many = 60
	for _, left := range []int{many - 1, many / 2, 2, 1} {
		bubble(t, func(t *testing.T, s *embedded.Server) {
			var keepers []*keeper
			for i := range many {
				keepers = append(keepers, newKeeper(t, s, fmt.Sprint("/a/", i), 10*time.Second))
			}
			renew(t, 30*time.Second, keepers...)
			rand.Shuffle(many, func(i, j int) { keepers[i], keepers[j] = keepers[j], keepers[i] })
			died := time.Now()
			for _, k := range keepers[left:] {
				if err := k.Close(); err != nil {
					t.Fatal(err)
				}
			}
			alive := keepers[:left]
			for sessions := many; sessions > left; {
				renew(t, 1, alive...)
				sessions = len(sessionKeys(t, alive[0])) / 2
				if took := time.Since(died); sessions < left || took > 32*time.Second {
					t.Fatalf("%d of %d are left: after %v there are %d", left, many, took, sessions)
				}
			}
			renew(t, time.Minute, alive...)
			if n := len(sessionKeys(t, alive[0])); n != 2*left {
				t.Errorf("%d are left, with %d keys", left, n)
			}
		})
	}
}

// TestSession_AWitnessIsEnoughToEndTheLast has only a witness left.
func TestSession_AWitnessIsEnoughToEndTheLast(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		dead, looks := newKeeper(t, s, "/a", 10*time.Second), s.Broker()
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if !dead.there(t, looks) {
			t.Error("somebody has ended it")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- session.Witness(ctx, looks, session.Config{Folder: sessionsFolder, Clock: clock.Process})
		}()
		time.Sleep(15 * time.Second)
		if dead.there(t, looks) {
			t.Error("nobody has ended it")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || len(sessionKeys(t, looks)) != 0 {
			t.Errorf("%v, left are %q", err, sessionKeys(t, looks))
		}
	})
}

// TestSession_WhatWasEndedAndNotClearedIsCleared has a session that was ended, but whose keys
// were not deleted.
func TestSession_WhatWasEndedAndNotClearedIsCleared(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		dead, alive := newKeeper(t, s, "/a", 10*time.Second), newKeeper(t, s, "/b", 10*time.Second)
		lease := fmt.Sprintf("%s%016x/lease", sessionsFolder, uint64(dead.session.ID))
		mustCommit(t, alive, broker.Delete(lease))
		for _, k := range []*keeper{dead, alive} { // one that holds it, and one that does not
			if _, err := k.KeepAlive(t.Context(), dead.session.ID); !errors.Is(err, broker.ErrSessionExpired) {
				t.Errorf("%v", err)
			}
		}
		renew(t, 4*time.Second, alive)
		if dead.there(t, alive) || len(sessionKeys(t, alive)) != 2 {
			t.Errorf("left are %q", sessionKeys(t, alive))
		}
	})
}

// TestSession_WithoutSpaceOneThatIsRenewedLivesAndOneThatIsNotEnds fills the store. Once there
// is space, a session that has no pulse has a whole TTL to renew itself.
func TestSession_WithoutSpaceOneThatIsRenewedLivesAndOneThatIsNotEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, embedded.Config{UnsafeNoFsync: true, QuotaBytes: 18 << 20})
		ttl := 10 * time.Second
		alive, dies, dead := newKeeper(t, s, "/a", ttl), newKeeper(t, s, "/b", ttl), newKeeper(t, s, "/c", ttl)
		fill(t, alive)
		renew(t, 40*time.Second, alive, dies)
		if !alive.there(t, alive) || !dies.there(t, alive) || dead.there(t, alive) {
			t.Errorf("left are %t, %t and %t", alive.there(t, alive), dies.there(t, alive), dead.there(t, alive))
		}
		if keys := sessionKeys(t, alive); len(keys) != 2 {
			t.Errorf("without space there are %q, want no pulse", keys)
		}
		mustCommit(t, alive, broker.DeleteTree("/fill/"))
		if err := alive.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		space := time.Now()
		for dies.there(t, alive) && time.Since(space) < 15*time.Second {
			renew(t, 1, alive)
		}
		if took := time.Since(space); took < ttl || took > 15*time.Second {
			t.Errorf("it was ended %v after there was space", took)
		}
		if keys := sessionKeys(t, alive); len(keys) != 2 || !alive.there(t, alive) {
			t.Errorf("left are %q", keys)
		}
	})
}

// fill puts values until the store refuses them.
func fill(t *testing.T, b broker.Broker) {
	t.Helper()
	value := bytes.Repeat([]byte("x"), broker.ValueBytesMax)
	var err error
	for i := 0; err == nil; i++ {
		if i == 200 {
			t.Fatal("100 MiB fit in")
		}
		_, err = broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{broker.Put(fmt.Sprintf("/fill/%d", i), value)}})
		time.Sleep(time.Second / 10) // the store checks its size at intervals
	}
	if !errors.Is(err, broker.ErrNoSpace) || !broker.MaybeApplied(err) || !broker.Temporary(err) {
		t.Errorf("%v", err)
	}
}

// TestSession_LivesOnForDays renews a session for longer than the TTL of the lease that holds
// its keys.
func TestSession_LivesOnForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, embedded.Config{UnsafeNoFsync: true, Tick: 2 * time.Second})
		k := newKeeper(t, s, "/a", 5*time.Minute)
		renew(t, 30*time.Hour, k)
		if !k.there(t, k) {
			t.Error("its key is gone")
		}
		if err := k.Revoke(t.Context(), k.session.ID); err != nil || k.there(t, k) || len(sessionKeys(t, k)) != 0 {
			t.Errorf("%v, left are %q", err, sessionKeys(t, k))
		}
	})
}
