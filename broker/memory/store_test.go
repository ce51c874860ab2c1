package memory_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
)

func commit(t *testing.T, b broker.Broker, ops ...broker.Op) broker.Revision {
	t.Helper()
	r, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: ops})
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

func grant(t *testing.T, b broker.Broker, ttl time.Duration) broker.Session {
	t.Helper()
	s, err := b.Grant(t.Context(), "", ttl)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func exists(t *testing.T, b broker.Broker, key string) bool {
	t.Helper()
	_, err := b.Get(t.Context(), key)
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

func TestRevisionsBeginAtOneWithoutGap(t *testing.T) {
	b := open(t)
	for want := range broker.Revision(5) {
		if got := b.Store().Revision(); got != want {
			t.Errorf("the store is at revision %d, want %d", got, want)
		}
		if got := commit(t, b, broker.Put("/a", nil), broker.Put("/b", nil)); got != want+1 {
			t.Errorf("the transaction has revision %d, want %d", got, want+1)
		}
		commit(t, b, broker.Delete("/missing"))
	}
}

func TestExpireSessionDeletesItsKeys(t *testing.T) {
	b := open(t)
	s := grant(t, b, time.Hour)
	commit(t, b, broker.PutSession("/a", nil, s.ID))
	if !b.Store().ExpireSession(s.ID) || exists(t, b, "/a") {
		t.Error("the session was not alive, or its key is still there")
	}
	if b.Store().ExpireSession(s.ID) {
		t.Error("the session expired twice")
	}
}

func TestTTLIsWholeSecondsRoundedUp(t *testing.T) {
	b := open(t)
	for asked, want := range map[time.Duration]time.Duration{
		1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second, 90 * time.Second: 90 * time.Second,
	} {
		if s := grant(t, b, asked); s.TTL != want {
			t.Errorf("Grant(%v) has TTL %v, want %v", asked, s.TTL, want)
		}
	}
}

func TestSessionLivesExactlyItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t)
		s := grant(t, b, 5*time.Second)
		commit(t, b, broker.PutSession("/a", nil, s.ID))
		started := time.Now()
		for time.Since(started) < 20*time.Second {
			if _, err := b.KeepAlive(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5*time.Second - 1)
			synctest.Wait()
			if !exists(t, b, "/a") {
				t.Fatalf("the session expired after %v", time.Since(started))
			}
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if exists(t, b, "/a") {
			t.Error("the session lives longer than its TTL")
		}
	})
}

func TestClosedStoreExpiresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a, b := store.Broker(), store.Broker()
		s := grant(t, a, time.Second)
		commit(t, a, broker.PutSession("/a", nil, s.ID))
		before := store.Revision()
		ended := make(chan error)
		go func() {
			var last error
			for _, last = range b.Watch(t.Context(), "/x/", 1) {
			}
			ended <- last
		}()
		synctest.Wait()
		for range 2 {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; !errors.Is(err, broker.ErrClosed) {
			t.Errorf("the watch ended with %v, want ErrClosed", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := store.Revision(); got != before {
			t.Errorf("the store is at revision %d, was at %d when it was closed", got, before)
		}
		if _, err := b.Get(t.Context(), "/a"); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Get: %v, want ErrClosed", err)
		}
	})
}

func TestSessionKeyIsALeaf(t *testing.T) {
	b := open(t)
	s := grant(t, b, time.Hour).ID
	tests := []struct {
		name string
		ops  []broker.Op
		ok   bool
	}{
		{"put below a session's key", []broker.Op{broker.Put("/s/x", nil)}, false},
		{"put deep below it", []broker.Op{broker.Put("/s/x/y/z", nil)}, false},
		{"put below what is deleted", []broker.Op{broker.Delete("/s"), broker.Put("/s/x", nil)}, true},
		{"put below what becomes permanent", []broker.Op{broker.Put("/s", nil), broker.Put("/s/x", nil)}, true},
		{"put a sibling", []broker.Op{broker.Put("/sx/y", nil)}, true},
		{"session's key with keys below", []broker.Op{broker.PutSession("/p", nil, s)}, false},
		{"session's key, keys below deleted", []broker.Op{broker.DeleteTree("/p/"), broker.PutSession("/p", nil, s)}, true},
		{"both in one transaction", []broker.Op{broker.Put("/n/x", nil), broker.PutSession("/n", nil, s)}, false},
		{"session's key anew", []broker.Op{broker.PutSession("/s", nil, s)}, true},
	}
	for _, test := range tests {
		for _, top := range []string{"/s", "/p", "/n", "/sx"} {
			commit(t, b, broker.DeleteTree(top+"/"), broker.Delete(top))
		}
		commit(t, b, broker.Put("/p/x", nil))
		commit(t, b, broker.PutSession("/s", nil, s))
		_, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: test.ops})
		if (err == nil) != test.ok || err != nil && !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("%s: %v, want it allowed: %t, else ErrInvalid", test.name, err, test.ok)
		}
	}
}

func TestCompactKeepsQuietWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan broker.Event)
		var last error
		go func() {
			defer close(events)
			for batch, err := range b.Watch(ctx, "/quiet/", 1) {
				last = err
				for _, e := range batch.Events {
					events <- e
				}
			}
		}()
		synctest.Wait()
		for range 3 {
			if err := b.Store().Compact(t.Context(), commit(t, b, broker.Put("/busy/a", nil))); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute) // progress in between
		}
		rev := commit(t, b, broker.Put("/quiet/a", nil))
		if e := <-events; e.KV.Modified != rev {
			t.Errorf("the watch delivered %+v, want the change at %d", e, rev)
		}
		cancel()
		for range events {
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("the watch ended with %v, want the context's error", last)
		}
	})
}

func TestCompactRefusesTheFuture(t *testing.T) {
	b := open(t)
	rev := commit(t, b, broker.Put("/a", nil))
	if err := b.Store().Compact(t.Context(), rev+1); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("Compact: %v, want ErrInvalid", err)
	}
	for range 2 {
		if err := b.Store().Compact(t.Context(), rev); err != nil {
			t.Errorf("Compact: %v", err)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	store := memory.New(memory.HistoryMax(10))
	b := store.Broker()
	for i := range 100 {
		commit(t, b, broker.Put("/a/"+strconv.Itoa(i), nil))
	}
	first := func(from broker.Revision) error {
		for _, err := range b.Watch(t.Context(), "/a/", from) {
			return err
		}
		return nil
	}
	if err := first(90); !errors.Is(err, broker.ErrCompacted) {
		t.Errorf("the watch from revision 90 begins with %v, want ErrCompacted", err)
	}
	if err := first(97); err != nil {
		t.Errorf("the watch from revision 97 begins with %v, want no error", err)
	}
	if kvs, _, err := broker.Collect(t.Context(), b, "/a/"); err != nil || len(kvs) != 100 {
		t.Errorf("%d keys are listed, %v, want all 100", len(kvs), err)
	}
}

func TestValuesAreCopied(t *testing.T) {
	b := open(t)
	value := []byte("1")
	commit(t, b, broker.Put("/a", value))
	value[0] = '2'
	if kv, err := b.Get(t.Context(), "/a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("the value is %q, %v, after its owner changed it; want 1", kv.Value, err)
	}
}

// TestProgressAndChangeAtTheSameMoment has watches that report their progress at the moment at
// which a change wakes them.
func TestProgressAndChangeAtTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		const watches, changes = 20, 10
		for range watches {
			wg.Go(func() {
				seen := 0
				for batch, err := range b.Watch(ctx, "/a/", 1) {
					if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					seen += len(batch.Events)
				}
				if seen != changes {
					t.Errorf("the watch delivered %d changes, want %d", seen, changes)
				}
			})
		}
		synctest.Wait()
		for range changes {
			time.Sleep(broker.ProgressMax / 2)
			commit(t, b, broker.Put("/a/x", nil))
		}
		synctest.Wait()
		cancel()
		wg.Wait()
	})
}

// TestEverythingAtOnce is for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	store := memory.New(memory.HistoryMax(50))
	var wg sync.WaitGroup
	for i := range 8 {
		b := store.Broker()
		wg.Go(func() {
			for n := range 100 {
				s, err := b.Grant(t.Context(), "", time.Second)
				if err != nil {
					t.Error(err)
					return
				}
				k := "/a/" + strconv.Itoa(n%7)
				results := b.Commit(t.Context(),
					broker.Txn{If: []broker.Cond{broker.Absent(k)}, Then: []broker.Op{broker.PutSession(k, nil, s.ID)}},
					broker.Txn{Then: []broker.Op{broker.Put("/b/"+strconv.Itoa(i), nil)}},
					broker.Txn{Then: []broker.Op{broker.DeleteTree("/a/")}})
				for _, r := range results {
					if r.Err != nil {
						t.Error(r.Err)
					}
				}
				for _, err := range b.Watch(t.Context(), "/b/", results[1].Revision) {
					if err != nil && !errors.Is(err, broker.ErrCompacted) {
						t.Error(err)
					}
					break
				}
				if err := b.Revoke(t.Context(), s.ID); err != nil {
					t.Error(err)
				}
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
