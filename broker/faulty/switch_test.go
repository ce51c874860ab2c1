package faulty_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
)

func TestFrozenCallsWaitForThaw(t *testing.T) {
	inWorld(t, "", func(t world) {
		t.faulty.Freeze()
		time.AfterFunc(time.Minute, func() {
			t.wantThere("/a", false)
			t.faulty.Thaw()
		})
		t.mustCommit("/a", time.Minute)
		t.wantThere("/a", true)
	})
}

func TestFrozenCallsEndWithTheirContext(t *testing.T) {
	inWorld(t, "", func(t world) {
		t.faulty.Freeze()
		err := t.within(time.Second, t.get)
		t.wantError("Get", err, broker.ErrUnavailable, false)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		t.wantError("Commit", t.within(time.Second, t.commit("/a")), broker.ErrUnavailable, true)
	})
}

func TestFreezeHoldsReplies(t *testing.T) {
	inWorld(t, "delay-reply 1s", func(t world) {
		time.AfterFunc(500*time.Millisecond, t.faulty.Freeze)
		time.AfterFunc(time.Minute, t.faulty.Thaw)
		t.mustCommit("/a", time.Minute)
	})
}

func TestCloseEndsFrozenCalls(t *testing.T) {
	inWorld(t, "", func(t world) {
		t.faulty.Freeze()
		ended := make(chan error)
		go func() { ended <- t.get(t.Context()) }()
		synctest.Wait()
		t.close()
		t.wantError("Get", <-ended, broker.ErrClosed, false)
		t.faulty.Heal()
		t.wantError("Get later", t.get(t.Context()), broker.ErrClosed, false)
	})
}

func TestCutConnectionSendsNothingUntilHealed(t *testing.T) {
	inWorld(t, "", func(t world) {
		t.faulty.Cut()
		t.wantError("Commit", t.timed(0, t.commit("/a")), broker.ErrUnavailable, false)
		for method, err := range t.everyCall() {
			t.wantError(method, err, broker.ErrUnavailable, false)
		}
		t.wantThere("/a", false)
		t.faulty.Heal()
		t.mustCommit("/a", 0)
		t.faulty.Cut()
		t.close()
		t.wantError("Get after Close", t.get(t.Context()), broker.ErrClosed, false)
	})
}

func TestCutLeavesTheOutcomeOfCallsUnderWayUnknown(t *testing.T) {
	for plan, applied := range map[string]bool{"delay-request 1s": false, "delay-reply 1s": true} {
		inWorld(t, plan, func(t world) {
			time.AfterFunc(500*time.Millisecond, t.faulty.Cut)
			t.wantError(plan, t.timed(500*time.Millisecond, t.commit("/a")), broker.ErrUnavailable, true)
			t.wantThere("/a", applied)
		})
	}
}

// watched is a watch in a goroutine of its own.
type watched struct {
	batches chan broker.Batch
	err     error // of the end, once batches is closed
}

func (w world) watch(ctx context.Context, from broker.Revision) *watched {
	got := &watched{batches: make(chan broker.Batch, 100)}
	go func() {
		defer close(got.batches)
		for batch, err := range w.faulty.Watch(ctx, "/w/", from) {
			if err != nil {
				got.err = err
				return
			}
			got.batches <- batch
		}
	}()
	return got
}

// wait returns the error with which the watch ends.
func (g *watched) wait() error {
	for range g.batches {
	}
	return g.err
}

// wantEvents checks the next batch of a watch.
func (w world) wantEvents(got *watched, n int) {
	w.Helper()
	if batch := <-got.batches; len(batch.Events) != n {
		w.Errorf("the batch is %+v, want %d events", batch, n)
	}
}

func (w world) soundPut(key string) {
	w.Helper()
	if _, err := broker.CommitOne(w.Context(), w.sound, put(key)); err != nil {
		w.Fatal(err)
	}
}

func TestCutEndsWatches(t *testing.T) {
	inWorld(t, "", func(t world) {
		got := t.watch(t.Context(), 1)
		synctest.Wait()
		t.faulty.Cut()
		t.wantError("Watch", got.wait(), broker.ErrUnavailable, false)
	})
}

func TestFreezeHoldsWatches(t *testing.T) {
	inWorld(t, "", func(t world) {
		got := t.watch(t.Context(), 1)
		t.soundPut("/w/a")
		t.wantEvents(got, 1)
		t.faulty.Freeze()
		t.soundPut("/w/a")
		<-time.After(time.Hour)
		if n := len(got.batches); n != 0 {
			t.Errorf("%d batches came while the connection was frozen", n)
		}
		t.faulty.Thaw()
		t.wantEvents(got, 1)
		t.faulty.Cut()
		t.wantError("Watch", got.wait(), broker.ErrUnavailable, false)
	})
}

func TestBatchIsStruck(t *testing.T) {
	for fault, kind := range map[string]error{"break": broker.ErrUnavailable, "compact": broker.ErrCompacted} {
		inWorld(t, fault+` on batch below "/w/b" call 1`, func(t world) {
			got := t.watch(t.Context(), 1)
			for _, key := range []string{"/w/a", "/w/a", "/w/b"} {
				t.soundPut(key)
				synctest.Wait()
			}
			t.wantError(fault, got.wait(), kind, false)
			again := t.watch(t.Context(), 1) // the rule is for one call only
			t.wantEvents(again, 3)
			t.faulty.Cut()
			t.wantError(fault, again.wait(), broker.ErrUnavailable, false)
		})
	}
}

func TestWatchIsStruckWhereItBegins(t *testing.T) {
	for fault, kind := range map[string]error{
		"break": broker.ErrUnavailable, "refuse": broker.ErrUnavailable, "compact": broker.ErrCompacted,
	} {
		inWorld(t, fault+" on watch", func(t world) {
			t.wantError(fault, t.watch(t.Context(), 1).wait(), kind, false)
		})
	}
}

func TestStalledWatchWaitsForThaw(t *testing.T) {
	inWorld(t, "stall on batch call 1", func(t world) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := t.watch(ctx, 1)
		t.soundPut("/w/a")
		<-time.After(time.Hour)
		if n := len(got.batches); n != 0 {
			t.Errorf("%d batches came through a stalled watch", n)
		}
		t.faulty.Thaw()
		t.wantEvents(got, 1)
		cancel()
		t.wantError("Watch", got.wait(), broker.ErrUnavailable, false)
	})
}

func TestStalledWatchEndsWithItsContext(t *testing.T) {
	inWorld(t, "stall on watch", func(t world) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := t.watch(ctx, 1).wait()
		t.wantError("Watch", err, broker.ErrUnavailable, false)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
	})
}

func TestCompactedListingIsRepeated(t *testing.T) {
	inWorld(t, "compact on list call 1", func(t world) {
		if _, _, err := broker.Collect(t.Context(), t.faulty, "/w/"); err != nil {
			t.Errorf("Collect: %v", err)
		}
		if got := t.faulty.Struck()[0]; got != 1 {
			t.Errorf("the rule struck %d times, want once", got)
		}
	})
}

func TestSwitchesAndCallsAtOnce(t *testing.T) {
	inWorld(t, "seed 5\nlate 3ms on commit chance 0.3\ndelay-reply 2ms chance 0.3\nbreak on batch chance 0.2", func(t world) {
		var wg sync.WaitGroup
		calls := []func(context.Context) error{
			t.get,
			t.commit("/w/a"),
			func(ctx context.Context) error { return t.watch(ctx, 1).wait() },
		}
		for _, call := range calls {
			for range 3 {
				wg.Go(func() {
					for err := error(nil); !errors.Is(err, broker.ErrClosed); {
						err = t.within(10*time.Millisecond, call)
						<-time.After(time.Millisecond) // or a cut connection would stop the clock
					}
				})
			}
		}
		for range 50 {
			for _, flip := range []func(){t.faulty.Freeze, t.faulty.Cut, t.faulty.Thaw, t.faulty.Heal} {
				flip()
				<-time.After(time.Millisecond)
			}
		}
		t.close()
		wg.Wait()
	})
}
