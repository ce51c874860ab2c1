package session

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a broker that has only sessions.
type fake struct {
	broker.Broker
	ttl time.Duration
	// grant is how long granting takes, delay how long the answer to a renewal takes
	// after it was processed.
	grant, delay time.Duration
	// grantErr and revokeErr, if not nil, are the answers to Grant and Revoke, fails to
	// every renewal.
	grantErr, revokeErr error
	fails               atomic.Pointer[error]
	processed           atomic.Int64 // when the last renewal was processed, by process
	renewals            atomic.Int64
	revoked             atomic.Bool
}

func (f *fake) Grant(context.Context, string, time.Duration) (broker.Session, error) {
	f.processed.Store(int64(process()))
	time.Sleep(f.grant)
	return broker.Session{ID: 7, TTL: f.ttl}, f.grantErr
}

func (f *fake) KeepAlive(ctx context.Context, _ broker.SessionID) (time.Duration, error) {
	if err := f.fails.Load(); err != nil {
		return 0, *err
	}
	f.processed.Store(int64(process()))
	f.renewals.Add(1)
	select {
	case <-time.After(f.delay):
		return f.ttl, nil
	case <-ctx.Done():
		return 0, broker.NewError("keepalive", "", broker.ErrUnavailable, ctx.Err())
	}
}

func (f *fake) Revoke(context.Context, broker.SessionID) error {
	f.revoked.Store(f.revokeErr == nil)
	return f.revokeErr
}

// fail makes every renewal fail.
func (f *fake) fail(kind error) {
	err := error(broker.NewError("keepalive", "", kind, nil))
	f.fails.Store(&err)
}

// process returns the boot reading of clock.Process.
func process() time.Duration {
	boot, _ := clock.Process()
	return boot
}

// open opens a session in virtual time and keeps it alive; ended is closed when Run has
// returned.
func open(t *testing.T, f *fake, config Config) (s *Session, ended chan struct{}) {
	t.Helper()
	if config.Clock == nil {
		config.Clock = clock.Process
	}
	s, err := Open(t.Context(), f, config)
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(context.Background())
	}()
	return s, ended
}

func TestDerive_TheDeadlinesAddUpToTheTTL(t *testing.T) {
	for _, ttl := range []time.Duration{TTLMin, 7 * time.Second, TTLDefault, time.Minute, TTLMax} {
		d := Derive(ttl)
		if d.Stop+d.Grace+d.Slack+d.Drift != ttl {
			t.Errorf("%v: %v", ttl, d)
		}
		// Three tries that time out must fit before handlers have to stop.
		if d.Renew+3*d.Try > d.Stop && ttl <= TTLDefault {
			t.Errorf("%v: three failed tries do not fit: %v", ttl, d)
		}
		if d.Slack <= 0 || d.Grace <= 0 || d.Claim <= 0 || d.Claim >= d.Stop {
			t.Errorf("%v: %v", ttl, d)
		}
	}
}

// closeSession closes a session and waits until Run has returned.
func closeSession(t *testing.T, s *Session, ended chan struct{}) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("closing: %v", err)
	}
	<-ended
}

func TestSession_LastsAsLongAsItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second, delay: time.Second}
		s, ended := open(t, f, Config{})
		time.Sleep(time.Hour)
		if s.Context().Err() != nil || !s.MayStart() {
			t.Errorf("it ended: %v", context.Cause(s.Context()))
		}
		if n := f.renewals.Load(); n < 1150 || n > 1250 {
			t.Errorf("%d renewals in an hour, want one every 3s", n)
		}
		closeSession(t, s, ended)
		if cause := context.Cause(s.Context()); !errors.Is(cause, ErrClosed) || !f.revoked.Load() {
			t.Errorf("cause %v, revoked %t", cause, f.revoked.Load())
		}
	})
}

// If the deadline counted from the reply, the owner would trust the session too long by
// the delay of the reply.
func TestSession_M14_EndsBeforeTheBrokerCanExpireItHoweverLateTheReplyCame(t *testing.T) {
	for _, delay := range []time.Duration{0, 100 * time.Millisecond, time.Second, 1900 * time.Millisecond, 4 * time.Second} {
		for _, ttl := range []time.Duration{TTLMin, TTLDefault, TTLMax} {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{ttl: ttl, delay: delay}
				var hardAt atomic.Int64
				s, ended := open(t, f, Config{TTL: ttl, Hard: func() { hardAt.Store(int64(process())) }})
				var stopped atomic.Int64
				context.AfterFunc(s.Context(), func() { stopped.Store(int64(process())) })
				time.Sleep(ttl + ttl/3) // with replies slower than a try it ends before this
				f.fail(broker.ErrUnavailable)
				<-ended
				synctest.Wait()
				expires := time.Duration(f.processed.Load()) + ttl
				timing := s.Timing()
				if late := time.Duration(stopped.Load()) + timing.Grace + timing.Slack - expires; late > 0 {
					t.Errorf("ttl %v, delay %v: told to stop %v too late", ttl, delay, late)
				}
				if late := time.Duration(hardAt.Load()) + timing.Slack - expires; hardAt.Load() == 0 || late > 0 {
					t.Errorf("ttl %v, delay %v: the hard deadline came %v too late", ttl, delay, late)
				}
				if cause := context.Cause(s.Context()); !errors.Is(cause, ErrDeadline) || !errors.Is(cause, ErrLost) {
					t.Errorf("cause %v", cause)
				}
			})
		}
	}
}

func TestSession_EndsAtOnceWhenTheBrokerReportsItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second}
		hard := false
		s, ended := open(t, f, Config{Hard: func() { hard = true }})
		time.Sleep(10 * time.Second)
		f.fail(broker.ErrSessionExpired)
		start := time.Now()
		<-s.Context().Done()
		if took := time.Since(start); took > s.Timing().Renew {
			t.Errorf("it took %v", took)
		}
		if !errors.Is(context.Cause(s.Context()), ErrExpired) {
			t.Errorf("cause %v", context.Cause(s.Context()))
		}
		<-ended
		if took := time.Since(start); !hard || took > s.Timing().Renew+s.Timing().Slack {
			t.Errorf("the hard deadline: %t after %v", hard, took)
		}
		if s.MayStart() {
			t.Error("something may start on a session that ended")
		}
	})
}

func TestSession_NothingStartsLateInItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second}
		s, ended := open(t, f, Config{})
		f.fail(broker.ErrUnavailable)
		time.Sleep(s.Timing().Stop - s.Timing().Claim - time.Millisecond)
		if !s.MayStart() {
			t.Error("nothing may start although enough time is left")
		}
		time.Sleep(2 * time.Millisecond)
		if s.MayStart() || s.Context().Err() != nil {
			t.Errorf("want that nothing may start, and the session to last: %v", context.Cause(s.Context()))
		}
		<-ended
	})
}

func TestOpen_FailsIfTheBrokerIsTooFarAway(t *testing.T) {
	for _, test := range []struct {
		grant, delay time.Duration
		opens        bool
	}{
		{0, 0, true},
		{1500 * time.Millisecond, 1900 * time.Millisecond, true}, // within the 2 s of a try
		{2500 * time.Millisecond, 1300 * time.Millisecond, true}, // granting takes more than one request
		{2500 * time.Millisecond, 2100 * time.Millisecond, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{ttl: 15 * time.Second, grant: test.grant, delay: test.delay}
			s, err := Open(t.Context(), f, Config{Clock: clock.Process})
			if (err == nil) != test.opens || f.revoked.Load() == test.opens {
				t.Errorf("%+v: %v, revoked %t", test, err, f.revoked.Load())
			}
			if !test.opens && (!broker.Temporary(err) || s != nil) {
				t.Errorf("%+v: %v, want a temporary error", test, err)
			}
		})
	}
}

func TestSession_SurvivesABrokerThatComesBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second}
		s, ended := open(t, f, Config{})
		for range 20 {
			f.fail(broker.ErrUnavailable)
			time.Sleep(6 * time.Second)
			f.fails.Store(nil)
			time.Sleep(4 * time.Second)
		}
		if s.Context().Err() != nil {
			t.Errorf("it ended: %v", context.Cause(s.Context()))
		}
		closeSession(t, s, ended)
	})
}

// While a machine is suspended its timers stand still, but not its boot clock. While a
// host stops a virtual machine both stand still, and the time of day is set later.
func TestSlowestRenewal_CountsFailedAttemptsAndIsForgottenAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second, delay: 499 * time.Millisecond}
		s, ended := open(t, f, Config{})
		expect := func(least, most time.Duration) {
			t.Helper()
			if got := s.SlowestRenewal(); got < least || got > most {
				t.Errorf("the slowest renewal took %v, want %v to %v", got, least, most)
			}
		}
		expect(0, 0)
		time.Sleep(time.Minute)
		expect(0, 0)
		// The first of its attempts may be as late as a renewal is due, and the last one
		// comes soon after.
		outage, retried := s.Timing().Renew+3*time.Second, s.Timing().Renew/15+f.delay
		f.fail(broker.ErrUnavailable)
		time.Sleep(outage)
		f.fails.Store(nil)
		time.Sleep(s.Timing().Renew)
		expect(3*time.Second, outage+retried)
		time.Sleep(9 * time.Minute)
		expect(3*time.Second, outage+retried)
		time.Sleep(2 * time.Minute)
		expect(0, 0)
		closeSession(t, s, ended)
	})
}

func TestSession_S2_EitherClockShowsThatTheMachineStoodStill(t *testing.T) {
	for name, jump := range map[string]struct{ boot, day time.Duration }{
		"suspended":                           {boot: time.Hour, day: time.Hour},
		"suspended, the time of day not kept": {boot: time.Hour},
		"stopped by its host":                 {day: time.Hour},
		"stopped for little longer than is left of the session": {day: 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{ttl: 15 * time.Second, delay: time.Hour} // no renewal is ever answered
				var boot, day atomic.Int64
				s, ended := open(t, f, Config{Clock: leaping(&boot, &day)})
				time.Sleep(2500 * time.Millisecond)
				boot.Store(int64(jump.boot))
				day.Store(int64(jump.day))
				if s.MayStart() {
					t.Error("something may start")
				}
				start := time.Now()
				<-ended
				if took := time.Since(start); took > checkEvery {
					t.Errorf("noticed after %v", took)
				}
			})
		})
	}
}

func TestSession_S2_ARenewalSentBeforeTheMachineStoodStillDoesNotExtendIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ttl: 15 * time.Second, delay: time.Second}
		var boot, day atomic.Int64
		s, ended := open(t, f, Config{Clock: leaping(&boot, &day)})
		time.Sleep(s.Timing().Renew + f.delay/2) // the answer is on its way
		day.Store(int64(time.Minute))
		f.fail(broker.ErrUnavailable)
		start := time.Now()
		<-s.Context().Done()
		if took := time.Since(start); took > checkEvery || !errors.Is(context.Cause(s.Context()), ErrDeadline) {
			t.Errorf("ended after %v: %v", took, context.Cause(s.Context()))
		}
		<-ended
	})
}

// The time of day is set back, or forward by less than the time left.
func TestSession_SurvivesChangesOfTheTimeOfDayWhileItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var boot, day atomic.Int64
		last := time.Duration(math.MinInt64)
		s, ended := open(t, &fake{ttl: 15 * time.Second}, Config{
			Clock: leaping(&boot, &day),
			Renewed: func(stop, _ time.Duration) {
				if stop < last {
					t.Errorf("a renewal brought the deadline from %v to %v", last, stop)
				}
				last = stop
			},
		})
		for _, to := range []time.Duration{-time.Hour, -time.Hour + 5*time.Second, -24 * time.Hour, -24*time.Hour + 5*time.Second} {
			day.Store(int64(to))
			time.Sleep(time.Minute)
		}
		if s.Context().Err() != nil {
			t.Errorf("it ended: %v", context.Cause(s.Context()))
		}
		closeSession(t, s, ended)
	})
}

// leaping returns a clock that is ahead of clock.Process by the stored times.
func leaping(boot, day *atomic.Int64) clock.Clock {
	return func() (time.Duration, time.Duration) {
		b, d := clock.Process()
		return b + time.Duration(boot.Load()), d + time.Duration(day.Load())
	}
}

func TestSession_TheFirstCauseCountsAndEndIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ended := open(t, &fake{ttl: 15 * time.Second}, Config{})
		first := errors.New("first")
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { s.End(first) })
		}
		all.Wait()
		s.End(errors.New("second"))
		if !errors.Is(context.Cause(s.Context()), first) {
			t.Errorf("cause %v", context.Cause(s.Context()))
		}
		<-ended
	})
}

func TestOpen_RefusesATTLOutOfRange(t *testing.T) {
	for _, ttl := range []time.Duration{-time.Second, time.Second, TTLMin - 1, TTLMax + 1} {
		if _, err := Open(t.Context(), &fake{}, Config{TTL: ttl}); err == nil {
			t.Errorf("a TTL of %v was accepted", ttl)
		}
	}
}

func TestPast_EndsItsSessionsOnceTheBrokerIsBack(t *testing.T) {
	var past Past
	var brokers []*fake
	unavailable := broker.NewError("revoke", "", broker.ErrUnavailable, nil)
	permanent := broker.NewError("revoke", "", broker.ErrPermission, nil)
	for _, revokeErr := range []error{unavailable, unavailable, permanent} {
		f := &fake{ttl: TTLDefault, revokeErr: revokeErr}
		s, err := Open(t.Context(), f, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := past.Close(t.Context(), s); !errors.Is(err, f.revokeErr) {
			t.Errorf("Close: %v, want %v", err, f.revokeErr)
		}
		if cause := context.Cause(s.Context()); !errors.Is(cause, ErrClosed) {
			t.Errorf("the session ended by %v", cause)
		}
		brokers = append(brokers, f)
	}
	if err := past.Settle(t.Context()); !errors.Is(err, unavailable) {
		t.Errorf("Settle while the broker is unreachable: %v", err)
	}
	for _, f := range brokers {
		f.revokeErr = nil
	}
	if err := past.Settle(t.Context()); err != nil {
		t.Errorf("Settle: %v", err)
	}
	if !brokers[0].revoked.Load() || !brokers[1].revoked.Load() || brokers[2].revoked.Load() {
		t.Error("the wrong sessions were ended")
	}
	brokers[0].revoked.Store(false)
	if err := past.Settle(t.Context()); err != nil || brokers[0].revoked.Load() {
		t.Errorf("a session was ended twice (%v)", err)
	}
}
