package faulty_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

func TestDelaysAddUpAndHarmNothing(t *testing.T) {
	inWorld(t, "delay-request 2s on commit\ndelay-reply 1s on commit\ndelay-reply 3s", func(t world) {
		took, err := t.commit("/a")
		t.wantTook("Commit", took, 6*time.Second)
		if err != nil || !t.there("/a") {
			t.Errorf("Commit: %v, and the key is there: %t", err, t.there("/a"))
		}
	})
}

func TestDelayedRequestIsAppliedAfterTheDelay(t *testing.T) {
	inWorld(t, "delay-request 2s on commit", func(t world) {
		time.AfterFunc(1*time.Second, func() {
			if t.there("/a") {
				t.Error("the request was applied before its delay was over")
			}
		})
		if _, err := t.commit("/a"); err != nil {
			t.Error(err)
		}
	})
}

func TestDelayedReplyComesAfterTheChange(t *testing.T) {
	inWorld(t, "delay-reply 2s on commit", func(t world) {
		time.AfterFunc(1*time.Second, func() {
			if !t.there("/a") {
				t.Error("the request was delayed, not the reply")
			}
		})
		if _, err := t.commit("/a"); err != nil {
			t.Error(err)
		}
	})
}

func TestDelayEndsWithTheContext(t *testing.T) {
	for fault, applied := range map[string]bool{"delay-request": false, "delay-reply": true} {
		inWorld(t, fault+" 1h", func(t world) {
			err := t.within(time.Second, func(ctx context.Context) error {
				_, err := broker.CommitOne(ctx, t.faulty, put("/a"))
				return err
			})
			t.wantError(fault, err, broker.ErrUnavailable, true)
			if !errors.Is(err, context.DeadlineExceeded) || t.there("/a") != applied {
				t.Errorf("%s: error %v, applied: %t, want the context's error, applied: %t", fault, err, t.there("/a"), applied)
			}
		})
	}
}

func TestLostRequestIsNeverApplied(t *testing.T) {
	inWorld(t, "lose-request 5s on commit call 2", func(t world) {
		if _, err := t.commit("/a"); err != nil {
			t.Error(err)
		}
		took, err := t.commit("/b")
		t.wantTook("Commit", took, 5*time.Second)
		t.wantError("Commit", err, broker.ErrUnavailable, true)
		if _, err := t.commit("/c"); err != nil {
			t.Error(err)
		}
		if err := t.faulty.Close(); err != nil {
			t.Error(err)
		}
		if !t.there("/a") || t.there("/b") || !t.there("/c") {
			t.Error("not exactly the second commit was lost")
		}
	})
}

func TestLostReplyWasApplied(t *testing.T) {
	inWorld(t, "lose-reply 0s on commit", func(t world) {
		took, err := t.commit("/a")
		t.wantTook("Commit", took, 0)
		t.wantError("Commit", err, broker.ErrUnavailable, true)
		if !t.there("/a") {
			t.Error("the commit was not applied")
		}
	})
}

func TestLateCommitIsAppliedAfterTheError(t *testing.T) {
	inWorld(t, "late 10s on commit", func(t world) {
		started := time.Now()
		took, err := t.commit("/a")
		t.wantTook("Commit", took, 0)
		t.wantError("Commit", err, broker.ErrUnavailable, true)
		if t.there("/a") {
			t.Error("the commit was applied at once")
		}
		if err := t.faulty.Close(); err != nil {
			t.Error(err)
		}
		t.wantTook("Close", time.Since(started), 10*time.Second)
		if !t.there("/a") {
			t.Error("Close did not wait until the late commit was applied")
		}
	})
}

func TestFaultBelowAKeySparesOtherTransactions(t *testing.T) {
	faults := map[string]bool{"lose-request 1s": false, "lose-reply 1s": true, "late 1s": false, "refuse": false}
	for fault, applied := range faults {
		inWorld(t, fault+` on commit below "/b/"`, func(t world) {
			bad := broker.Txn{Then: []broker.Op{broker.Put("/b//", nil)}}
			results := t.faulty.Commit(t.Context(), put("/a"), put("/b/x"), put("/b"), put("/b/y"), bad)
			for i, r := range results[:4] {
				if struck := i == 1 || i == 3; struck != errors.Is(r.Err, broker.ErrUnavailable) || struck == r.OK {
					t.Errorf("%s: transaction %d has result %+v, want it struck: %t", fault, i, r, struck)
				}
			}
			t.wantError(fault+", invalid", results[4].Err, broker.ErrInvalid, false)
			if !t.there("/a") || !t.there("/b") || t.there("/b/x") != applied || t.there("/b/y") != applied {
				t.Errorf("%s: applied: %t %t %t %t, want the struck ones applied: %t", fault,
					t.there("/a"), t.there("/b/x"), t.there("/b"), t.there("/b/y"), applied)
			}
		})
	}
}

func TestRefusedCallWasNeverSent(t *testing.T) {
	for fault, kind := range map[string]error{"refuse": broker.ErrUnavailable, "forbid": broker.ErrPermission} {
		inWorld(t, fault, func(t world) {
			took, err := t.commit("/a")
			t.wantTook("Commit", took, 0)
			t.wantError("Commit", err, kind, false)
			if t.there("/a") {
				t.Error("the commit was applied")
			}
			for method, err := range t.everyCall() {
				t.wantError(method, err, kind, false)
			}
		})
	}
}

// everyCall calls each method but Commit.
func (w world) everyCall() map[string]error {
	ctx := w.Context()
	_, get := w.faulty.Get(ctx, "/a")
	_, _, list := broker.Collect(ctx, w.faulty, "/a/")
	_, grant := w.faulty.Grant(ctx, "", time.Second)
	_, keepAlive := w.faulty.KeepAlive(ctx, 1)
	var watch error
	for _, watch = range w.faulty.Watch(ctx, "/a/", 1) {
		break
	}
	return map[string]error{"Get": get, "List": list, "Grant": grant, "KeepAlive": keepAlive,
		"Revoke": w.faulty.Revoke(ctx, 1), "Watch": watch}
}

func TestSessionCallsSufferToo(t *testing.T) {
	inWorld(t, "lose-reply 0s on grant,revoke\nlate 1s on keepalive", func(t world) {
		_, err := t.faulty.Grant(t.Context(), "", 3*time.Second)
		t.wantError("Grant", err, broker.ErrUnavailable, true)
		s, err := t.sound.Grant(t.Context(), "", 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_, err = t.faulty.KeepAlive(t.Context(), s.ID)
		t.wantError("KeepAlive", err, broker.ErrUnavailable, true)
		// It is renewed after one second, so that it lives for four.
		<-time.After(3500 * time.Millisecond)
		if _, err := t.sound.KeepAlive(t.Context(), s.ID); err != nil {
			t.Errorf("the late renewal did not arrive: %v", err)
		}
		t.wantError("Revoke", t.faulty.Revoke(t.Context(), s.ID), broker.ErrUnavailable, true)
		_, err = t.sound.KeepAlive(t.Context(), s.ID)
		t.wantError("KeepAlive after the revocation", err, broker.ErrSessionExpired, false)
	})
}

func TestLostReadIsNoUnknownOutcome(t *testing.T) {
	inWorld(t, "lose-reply 1s on get\nlose-request 1s on list", func(t world) {
		calls := t.everyCall()
		t.wantError("Get", calls["Get"], broker.ErrUnavailable, false)
		t.wantError("List", calls["List"], broker.ErrUnavailable, false)
	})
}

func TestStruckCountsWhatHappened(t *testing.T) {
	inWorld(t, "delay-request 0s on commit call 2\nrefuse on get\nstall on list", func(t world) {
		for range 3 {
			if _, err := t.commit("/a"); err != nil {
				t.Error(err)
			}
		}
		_, err := t.faulty.Get(t.Context(), "/a")
		t.wantError("Get", err, broker.ErrUnavailable, false)
		if got := t.faulty.Struck(); !slices.Equal(got, []int{1, 1, 0}) {
			t.Errorf("the rules struck %v times, want 1, 1, 0", got)
		}
		t.faulty.Use(nil)
		if _, err := t.faulty.Get(t.Context(), "/a"); err != nil || len(t.faulty.Struck()) != 0 {
			t.Errorf("without a plan Get returned %v, and the rules are %v", err, t.faulty.Struck())
		}
	})
}
