package faulty_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBroker checks that a plan without faults, or with delays only, keeps the contract.
func TestBroker(t *testing.T) {
	plans := map[string]*faulty.Plan{
		"no_plan":    nil,
		"empty_plan": {Seed: 1},
		"delays":     faulty.MustParse("seed 3\ndelay-request 7ms chance 0.3\ndelay-reply 4ms chance 0.3"),
		"reorder":    faulty.MustParse("seed 5\nreorder 2ms"),
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			var store *memory.Store
			brokertest.Run(t, func(t *testing.T) broker.Broker {
				store = newStore(t)
				return faulty.Wrap(store.Broker(), plan)
			}, brokertest.Options{
				Around:  synctest.Test,
				Compact: func(ctx context.Context, rev broker.Revision) error { return store.Compact(ctx, rev) },
				Reopen:  func(*testing.T, broker.Broker) broker.Broker { return faulty.Wrap(store.Broker(), plan) },
			})
		})
	}
}

func newStore(t *testing.T) *memory.Store {
	store := memory.New()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store
}

// world is a store with a connection that has faults and one that has none.
type world struct {
	*testing.T
	faulty *faulty.Broker
	sound  broker.Broker
}

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, plan string, test func(t world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		w := world{T: t, faulty: faulty.Wrap(store.Broker(), faulty.MustParse(plan)), sound: store.Broker()}
		t.Cleanup(w.close)
		test(w)
	})
}

func (w world) close() {
	w.Helper()
	if err := w.faulty.Close(); err != nil {
		w.Errorf("Close: %v", err)
	}
}

func put(key string) broker.Txn { return broker.Txn{Then: []broker.Op{broker.Put(key, nil)}} }

// commit returns a call that commits a put through the faulty connection.
func (w world) commit(key string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := broker.CommitOne(ctx, w.faulty, put(key))
		return err
	}
}

// mustCommit commits a put through the faulty connection, which must take a certain time.
func (w world) mustCommit(key string, want time.Duration) {
	w.Helper()
	if err := w.timed(want, w.commit(key)); err != nil {
		w.Errorf("Commit: %v", err)
	}
}

// timed makes a call, which must take a certain time.
func (w world) timed(want time.Duration, call func(context.Context) error) error {
	w.Helper()
	started := time.Now()
	err := call(w.Context())
	if took := time.Since(started); took != want {
		w.Errorf("the call took %v, want %v", took, want)
	}
	return err
}

// there reports whether a key exists in the store.
func (w world) there(key string) bool {
	w.Helper()
	_, err := w.sound.Get(w.Context(), key)
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		w.Fatalf("Get: %v", err)
	}
	return err == nil
}

// wantThere checks whether a key exists in the store.
func (w world) wantThere(key string, want bool) {
	w.Helper()
	if got := w.there(key); got != want {
		w.Errorf("%s exists: %t, want %t", key, got, want)
	}
}

// wantError checks an error's kind and whether the outcome is unknown.
func (w world) wantError(what string, err, kind error, maybe bool) {
	w.Helper()
	if !errors.Is(err, kind) || broker.MaybeApplied(err) != maybe {
		w.Errorf("%s: error %v, want %q with an unknown outcome: %t", what, err, kind, maybe)
	}
}

// within calls f with a context that ends after some time.
func (w world) within(d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	return f(ctx)
}

func (w world) get(ctx context.Context) error {
	_, err := w.faulty.Get(ctx, "/a")
	return err
}

func TestReorder_SendsTransactionsApartInAnyOrderButForThoseThatShareAKey(t *testing.T) {
	orders := map[string]bool{}
	for seed := range 30 {
		inWorld(t, fmt.Sprintf("seed %d\nreorder 1s", seed), func(w world) {
			order := ""
			last := broker.Revision(0)
			err := w.timed(4*time.Second, func(ctx context.Context) error {
				twice := broker.Txn{If: []broker.Cond{broker.Exists("/k/a")}, Then: []broker.Op{broker.Put("/k/a", []byte("2")), broker.Read("/k/a")}}
				for _, r := range w.faulty.Commit(ctx, put("/k/a"), put("/k/b"), put("/k/c"), put("/k/d"), twice) {
					if !r.OK {
						return fmt.Errorf("refused: %w", r.Err)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			kvs, _, err := broker.Collect(w.Context(), w.sound, "/k/")
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(kvs, func(a, b broker.KV) int { return cmp.Compare(a.Created, b.Created) })
			for _, kv := range kvs {
				if kv.Created == last {
					t.Errorf("%s has the revision of another", kv.Key)
				}
				order, last = order+kv.Key, kv.Created
			}
			orders[order] = true
		})
	}
	if len(orders) < 5 {
		t.Errorf("the orders are %v", orders)
	}
}
