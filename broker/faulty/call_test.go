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
		t.mustCommit("/a", 6*time.Second)
		t.wantThere("/a", true)
	})
}

func TestARequestIsAppliedAfterItsDelayAndBeforeThatOfItsReply(t *testing.T) {
	for fault, applied := range map[string]bool{"delay-request": false, "delay-reply": true} {
		inWorld(t, fault+" 2s on commit", func(t world) {
			time.AfterFunc(time.Second, func() { t.wantThere("/a", applied) })
			t.mustCommit("/a", 2*time.Second)
		})
	}
}

func TestDelayEndsWithTheContext(t *testing.T) {
	for fault, applied := range map[string]bool{"delay-request": false, "delay-reply": true} {
		inWorld(t, fault+" 1h", func(t world) {
			err := t.within(time.Second, t.commit("/a"))
			t.wantError(fault, err, broker.ErrUnavailable, true)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want the context's", fault, err)
			}
			t.wantThere("/a", applied)
		})
	}
}

func TestLostRequestIsNeverApplied(t *testing.T) {
	inWorld(t, "lose-request 5s on commit call 2", func(t world) {
		t.mustCommit("/a", 0)
		t.wantError("Commit", t.timed(5*time.Second, t.commit("/b")), broker.ErrUnavailable, true)
		t.mustCommit("/c", 0)
		t.close()
		for key, applied := range map[string]bool{"/a": true, "/b": false, "/c": true} {
			t.wantThere(key, applied)
		}
	})
}

func TestLostReplyWasApplied(t *testing.T) {
	inWorld(t, "lose-reply 0s on commit", func(t world) {
		t.wantError("Commit", t.timed(0, t.commit("/a")), broker.ErrUnavailable, true)
		t.wantThere("/a", true)
	})
}

func TestLateCommitIsAppliedAfterTheError(t *testing.T) {
	inWorld(t, "late 10s on commit", func(t world) {
		t.wantError("Commit", t.timed(0, t.commit("/a")), broker.ErrUnavailable, true)
		t.wantThere("/a", false)
		_ = t.timed(10*time.Second, func(context.Context) error { t.close(); return nil })
		t.wantThere("/a", true)
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
			for key, want := range map[string]bool{"/a": true, "/b": true, "/b/x": applied, "/b/y": applied} {
				t.wantThere(key, want)
			}
		})
	}
}

func TestRefusedCallWasNeverSent(t *testing.T) {
	for fault, kind := range map[string]error{"refuse": broker.ErrUnavailable, "forbid": broker.ErrPermission} {
		inWorld(t, fault, func(t world) {
			t.wantError("Commit", t.timed(0, t.commit("/a")), kind, false)
			t.wantThere("/a", false)
			for method, err := range t.everyCall() {
				t.wantError(method, err, kind, false)
			}
		})
	}
}

// everyCall calls each method but Commit.
func (w world) everyCall() map[string]error {
	ctx := w.Context()
	_, _, list := broker.Collect(ctx, w.faulty, "/a/")
	_, grant := w.faulty.Grant(ctx, "", time.Second)
	_, keepAlive := w.faulty.KeepAlive(ctx, 1)
	var watch error
	for _, watch = range w.faulty.Watch(ctx, "/a/", 1) {
		break
	}
	return map[string]error{"Get": w.get(ctx), "List": list, "Grant": grant, "KeepAlive": keepAlive,
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
		// It is renewed after one second, so it lasts for four.
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
			t.mustCommit("/a", 0)
		}
		t.wantError("Get", t.get(t.Context()), broker.ErrUnavailable, false)
		if got := t.faulty.Struck(); !slices.Equal(got, []int{1, 1, 0}) {
			t.Errorf("the rules struck %v times, want 1, 1, 0", got)
		}
		t.faulty.Use(nil)
		if err := t.get(t.Context()); err != nil || len(t.faulty.Struck()) != 0 {
			t.Errorf("without a plan Get returned %v, and the rules are %v", err, t.faulty.Struck())
		}
	})
}
