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

// bubble runs a test with a server of its own in virtual time. It has etcd's
// real tick, so that its shortest session is 2 s.
func bubble(t *testing.T, test func(*testing.T, *embedded.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := embedded.Start(t.Context(), embedded.Config{UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		test(t, s)
	})
}

// TestASessionExpiresInVirtualTime renews a session for ten minutes, stops, and
// sees its keys vanish together, not before its TTL is over and soon after: those who
// look do so ten times in a TTL.
func TestASessionExpiresInVirtualTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *embedded.Server) {
		b := s.Broker()
		session, err := b.Grant(t.Context(), sessionsFolder, 29500*time.Millisecond)
		if err != nil || session.TTL != 30*time.Second {
			t.Fatalf("%+v, %v", session, err)
		}
		_, err = broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{
			broker.PutSession("/a/1", nil, session.ID), broker.PutSession("/a/2", nil, session.ID),
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			if ttl, err := b.KeepAlive(t.Context(), session.ID); err != nil || ttl != session.TTL {
				t.Fatalf("%v, %v", ttl, err)
			}
		}
		renewed := time.Now()
		_, revision, err := broker.Collect(t.Context(), b, "/a/")
		if err != nil {
			t.Fatal(err)
		}
		for batch, err := range b.Watch(t.Context(), "/a/", revision+1) {
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

// TestAnIdleWatchReportsProgress covers the case in which etcd alone would keep
// silent: the watch begins at a revision that the store has not reached, and
// then the store rests.
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
				// A slow caller is no silent server.
				time.Sleep(time.Minute)
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
		session, err := b.Grant(t.Context(), "", 59500*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if r := b.Commit(t.Context(), broker.Txn{Then: []broker.Op{broker.PutSession("/a", nil, session.ID)}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
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

// TestTwoWatchesThatCatchUpInVirtualTime has one watch that is far behind and one
// that is not. etcd brings both up to date in rounds, and waits between two rounds
// for as long as the one before took, which in virtual time is nothing: a ticker's
// interval that makes it panic.
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
