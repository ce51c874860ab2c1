package embedded_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// bubble runs a test in virtual time with its own server. That has etcd's real tick, so its
// shortest session is 2 s.
func bubble(t *testing.T, test func(*testing.T, *embedded.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, start(t, embedded.Config{UnsafeNoFsync: true})) })
}

// TestASessionExpiresInVirtualTime renews a session for ten minutes. Then its keys vanish
// together, soon after its TTL.
func TestASessionExpiresInVirtualTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		b := s.Broker()
		session := mustGrant(t, b, sessionsFolder, 29500*time.Millisecond)
		if session.TTL != 30*time.Second {
			t.Errorf("%+v", session)
		}
		mustCommit(t, b, broker.PutSession("/a/1", nil, session.ID), broker.PutSession("/a/2", nil, session.ID))
		for range 60 {
			time.Sleep(10 * time.Second)
			if ttl, err := b.KeepAlive(t.Context(), session.ID); err != nil || ttl != session.TTL {
				t.Fatalf("%v, %v", ttl, err)
			}
		}
		renewed := time.Now()
		for batch, err := range b.Watch(t.Context(), "/a/", mustPut(t, b, "/b")) {
			if err != nil {
				t.Fatal(err)
			}
			if len(batch.Events) == 0 {
				continue
			}
			if waited := time.Since(renewed); waited < session.TTL || waited > session.TTL*7/6 {
				t.Errorf("the session expired after %v; its TTL is %v", waited, session.TTL)
			}
			if len(batch.Events) != 2 || !batch.Events[0].Deleted || batch.Events[0].KV.Modified != batch.Events[1].KV.Modified {
				t.Errorf("%+v", batch)
			}
			break
		}
		if _, err := b.KeepAlive(t.Context(), session.ID); !errors.Is(err, broker.ErrSessionExpired) {
			t.Errorf("%v", err)
		}
	})
}

// TestAnIdleWatchReportsProgress has a watch from a revision that the store has not reached.
// etcd alone would not report progress.
func TestAnIdleWatchReportsProgress(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		b := s.Broker()
		revision := mustPut(t, b, "/a/1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		heard, batches := time.Now(), 0
		for batch, err := range b.Watch(ctx, "/a/", revision+1) {
			if err != nil {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				break
			}
			if waited := time.Since(heard); waited > broker.ProgressMax || batch.Revision != revision || len(batch.Events) > 0 {
				t.Fatalf("after %v: %+v", waited, batch)
			}
			heard, batches = time.Now(), batches+1
			if batches%10 == 0 {
				time.Sleep(time.Minute) // a slow caller must not look like a silent server
				heard = time.Now()
			}
		}
		if batches < 20 {
			t.Errorf("%d batches", batches)
		}
	})
}

func TestAWatchFromAFarFutureIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		b := s.Broker()
		began := time.Now()
		for _, err := range b.Watch(t.Context(), "/a/", 1000) {
			if !errors.Is(err, broker.ErrUnavailable) || time.Since(began) != broker.ProgressMax {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
	})
}

func TestASessionWithoutAFolderEndsByItself(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		b := s.Broker()
		mustCommit(t, b, broker.PutSession("/a", nil, mustGrant(t, b, "", 59500*time.Millisecond).ID))
		time.Sleep(time.Minute - time.Millisecond)
		if _, err := b.Get(t.Context(), "/a"); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(2 * time.Second)
		if kv, err := b.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("still there: %+v, %v", kv, err)
		}
	})
}

// TestTwoWatchesThatCatchUpInVirtualTime has one watch that lags much and one that lags
// little; see catchUpRevisions.
func TestTwoWatchesThatCatchUpInVirtualTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		b := s.Broker()
		const far = 3000
		first := mustPut(t, b, "/a/0")
		last := first
		for range far {
			last = mustPut(t, b, "/a/0")
		}
		var watches sync.WaitGroup
		for _, from := range []broker.Revision{first, last - 1} {
			watches.Go(func() {
				for batch, err := range b.Watch(t.Context(), "/a/", from) {
					if err != nil {
						t.Error(err)
					}
					if batch.Revision == last {
						break
					}
				}
			})
		}
		watches.Wait()
	})
}
