package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

// renewed writes what a store keeps that cannot end a session by itself.
func renewed(t *testing.T, b broker.Broker, id broker.SessionID, at time.Time) {
	t.Helper()
	if _, err := broker.CommitOne(context.WithoutCancel(t.Context()), b, broker.Txn{Then: []broker.Op{
		broker.Put(sessionkey.Of(renewals, id, sessionkey.Lease), []byte("15s")), broker.Put(sessionkey.Of(renewals, id, sessionkey.Pulse), sessionkey.Stamp(at)),
	}}); err != nil {
		t.Error(err)
	}
}

// renewing renews a session by a clock that is wrong by ahead, until stop is called.
func renewing(t *testing.T, b broker.Broker, id broker.SessionID, ahead time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			renewed(t, b, id, time.Now().Add(ahead))
			select {
			case <-ctx.Done():
			case <-time.After(Derive(15 * time.Second).Renew):
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}
}

func TestSilence_O07_AccusesNobodyForAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		b := store.Broker()
		const dead, behind = 1, 2
		died := time.Now()
		renewed(t, b, dead, died)
		stop := renewing(t, b, behind, -time.Hour)
		time.Sleep(time.Minute)
		var s Silence
		asked := func(s *Silence, ids ...broker.SessionID) (map[broker.SessionID]time.Time, time.Duration) {
			t.Helper()
			began := time.Now()
			silent, err := s.Of(t.Context(), b, renewals, ids...)
			if err != nil {
				t.Error(err)
			}
			return silent, time.Since(began)
		}
		for _, ids := range [][]broker.SessionID{nil, {dead, behind}} {
			if silent, took := asked(new(Silence), ids...); len(silent) != 1 || !silent[dead].Equal(died) || took > 5*time.Second {
				t.Errorf("silent are %v, after %v", silent, took)
			}
		}
		asked(&s)
		for range 20 { // it knows both by now
			time.Sleep(time.Second)
			if silent, took := asked(&s); len(silent) != 1 || took > 0 {
				t.Errorf("silent are %v, after %v", silent, took)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if silent, err := new(Silence).Of(short, b, renewals); err != nil || len(silent) != 2 {
			t.Errorf("without time for a second look: %v, %v", silent, err)
		}
		if silent, took := asked(&s, behind+1); len(silent) > 0 || took > 0 {
			t.Errorf("of one that is not there: %v, after %v", silent, took)
		}
		stop()
		died = time.Now()
		for len(s.suspect) > 0 { // it dies as well; by its own clock that was an hour ago
			time.Sleep(time.Second)
			silent, took := asked(&s)
			if late := time.Since(died); took > 0 || late > 25*time.Second {
				t.Fatalf("after %v, silent are %v, after %v", late, silent, took)
			}
			if at, told := silent[behind]; told {
				if at.Before(died.Add(-5*time.Second)) || time.Since(died) < 10*time.Second {
					t.Errorf("it is silent since %v, it died at %v", at, died)
				}
				break
			}
		}
	})
}

func TestWatchSilence_O07_TellsWhoFallsSilentAndWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		b := store.Broker()
		const lives, dies = 1, 2
		defer renewing(t, b, lives, 0)()
		stop := renewing(t, b, dies, 0)
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan map[broker.SessionID]time.Time)
		next := func() map[broker.SessionID]time.Time {
			select {
			case now := <-told:
				return now
			case <-time.After(10 * time.Minute):
				t.Fatal("nothing is told")
				return nil
			}
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			WatchSilence(ctx, b, renewals, nil, func(now map[broker.SessionID]time.Time) { told <- now })
		}()
		defer cancel()
		time.Sleep(time.Minute)
		stop()
		began := time.Now()
		if now := next(); len(now) != 1 || now[dies].IsZero() || time.Since(began) > 40*time.Second {
			t.Errorf("after %v, %v", time.Since(began), now)
		}
		time.Sleep(time.Minute) // says nothing new
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{
			broker.Delete(sessionkey.Of(renewals, dies, sessionkey.Lease)), broker.Delete(sessionkey.Of(renewals, dies, sessionkey.Pulse)),
		}}); err != nil {
			t.Error(err)
		}
		if now := next(); len(now) != 0 {
			t.Errorf("it is gone, and told is %v", now)
		}
		cancel()
		<-over
	})
}
