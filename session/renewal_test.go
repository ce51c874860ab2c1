package session

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

const renewals = "/ns/sessions/"

// TestAwaitRenewal_…: the keys of sessions are written by hand, as a store keeps them that cannot
// end a session by itself.
func TestAwaitRenewal_O07_WaitsForARenewalOrTheEndOfEach(t *testing.T) {
	lease := func(id broker.SessionID) string { return sessionkey.Of(renewals, id, sessionkey.Lease) }
	beat := func(id broker.SessionID) string { return sessionkey.Of(renewals, id, sessionkey.Pulse) }
	var many []broker.SessionID
	for id := range broker.SessionID(200) {
		many = append(many, id+1)
	}
	last := many[len(many)-1]
	type step struct {
		at  time.Duration
		ops []broker.Op
	}
	for name, test := range map[string]struct {
		ids   []broker.SessionID
		steps []step
		want  time.Duration // within two looks
	}{
		"none":                   {},
		"none is known":          {ids: many},
		"one is renewed":         {[]broker.SessionID{7}, []step{{0, []broker.Op{broker.Put(lease(7), nil), broker.Put(beat(7), nil)}}, {time.Second, []broker.Op{broker.Put(beat(7), nil)}}}, time.Second},
		"one has no pulse":       {[]broker.SessionID{7}, []step{{0, []broker.Op{broker.Put(lease(7), nil)}}}, 0},
		"another one is renewed": {[]broker.SessionID{7}, []step{{0, []broker.Op{broker.Put(lease(7), nil), broker.Put(beat(7), nil)}}, {time.Second, []broker.Op{broker.Put(beat(8), nil)}}, {5 * time.Second, []broker.Op{broker.Put(beat(7), nil)}}}, 5 * time.Second},
		"one ends": {[]broker.SessionID{7}, []step{
			{0, []broker.Op{broker.Put(lease(7), nil), broker.Put(beat(7), nil)}},
			{time.Second, []broker.Op{broker.Delete(lease(7))}}, // its owner keys are still there
			{3 * time.Second, []broker.Op{broker.Delete(beat(7))}},
		}, 3 * time.Second},
		"of many, the last is late": {many, []step{
			{0, []broker.Op{broker.Put(lease(1), nil), broker.Put(beat(1), nil), broker.Put(lease(last), nil), broker.Put(beat(last), nil)}},
			{time.Second, []broker.Op{broker.Put(beat(1), nil)}},
			{10 * time.Second, []broker.Op{broker.Put(beat(last), nil)}},
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				defer store.Close()
				b := store.Broker()
				commit := func(ops []broker.Op) {
					if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: ops}); err != nil {
						t.Error(err)
					}
				}
				for _, s := range test.steps {
					if s.at == 0 {
						commit(s.ops)
						continue
					}
					time.AfterFunc(s.at, func() { commit(s.ops) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				if err := AwaitRenewal(ctx, b, renewals, test.ids...); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < test.want || took > test.want+2*renewalLook {
					t.Errorf("it took %v, want %v", took, test.want)
				}
			})
		})
	}
}

func TestAwaitRenewal_ReturnsWhatEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		b := store.Broker()
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{
			broker.Put(sessionkey.Of(renewals, 7, sessionkey.Lease), nil), broker.Put(sessionkey.Of(renewals, 7, sessionkey.Pulse), nil),
		}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := AwaitRenewal(ctx, b, renewals, 7); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of one that is never renewed: %v", err)
		}
		if err := AwaitRenewal(t.Context(), faulty.Wrap(b, faulty.MustParse("refuse on commit")), renewals, 7); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("without a broker: %v", err)
		}
	})
}

func TestRenewals_SayWhichSessionIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		b := store.Broker()
		now := time.Now()
		pulse := func(id broker.SessionID, ttl string, value []byte) []broker.Op {
			return []broker.Op{broker.Put(sessionkey.Of(renewals, id, sessionkey.Lease), []byte(ttl)), broker.Put(sessionkey.Of(renewals, id, sessionkey.Pulse), value)}
		}
		txn := broker.Txn{Then: slices.Concat(
			pulse(1, "15s", sessionkey.Stamp(now)),
			pulse(2, "15s", sessionkey.Stamp(now.Add(-20*time.Second))), // within what clocks differ by
			pulse(3, "15s", sessionkey.Stamp(now.Add(-25*time.Second))),
			pulse(4, "15s", nil), // put again by another session, for one that had none
			pulse(5, "soon", sessionkey.Stamp(now.Add(-time.Hour))),
			pulse(6, "15s", sessionkey.Stamp(now.Add(time.Hour))), // by a clock that is ahead
		)}
		if _, err := broker.CommitOne(t.Context(), b, txn); err != nil {
			t.Fatal(err)
		}
		for _, ids := range [][]broker.SessionID{nil, {1, 2, 3, 4, 5, 6, 7}} {
			all, err := ReadRenewals(t.Context(), b, renewals, ids...)
			if err != nil {
				t.Fatal(err)
			}
			for id := broker.SessionID(1); id <= 7; id++ {
				if got := all.Overdue(id, now); got != (id == 3) {
					t.Errorf("of %d: session %d is overdue: %v", len(ids), id, got)
				}
			}
		}
	})
}
