package doctor_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

func TestRoundTrip_IsJudgedByWhatARenewalMayTake(t *testing.T) {
	for plan, want := range map[string]doctor.Status{
		"":                                   doctor.OK,
		"delay-reply 100ms on get":           doctor.OK,
		"delay-reply 700ms on get call 3":    doctor.Warning,
		"delay-reply 700ms on commit call 3": doctor.Warning,
		"delay-reply 3s on commit call 20":   doctor.Problem,
	} {
		t.Run(strings.ReplaceAll(plan, " ", "_"), func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.doctor.Broker = faulty.Wrap(w.connect(), faulty.MustParse(plan))
				c, err := w.doctor.RoundTrip(w.Context())
				if err != nil || c.Status != want || !strings.Contains(c.Found, "a renewal may take 2s") || (want != doctor.OK) != (c.Do != "") {
					w.Errorf("%+v, %v", c, err)
				}
				// A longer TTL forgives more.
				w.doctor.SessionTTL = 300 * time.Second
				if c, err := w.doctor.RoundTrip(w.Context()); err != nil || !strings.Contains(c.Found, "a renewal may take 5s") {
					w.Errorf("%+v, %v", c, err)
				}
			})
		})
	}
}

func TestGround_ChecksLeaveNothingBehind(t *testing.T) {
	inWorlds(t, func(w *world) {
		before := w.put("/elsewhere", "")
		if _, err := w.doctor.RoundTrip(w.Context()); err != nil {
			w.Error(err)
		}
		c, err := w.doctor.Permissions(w.Context())
		if err != nil || c.Status != doctor.OK || !strings.Contains(c.Found, "/w/") {
			w.Errorf("%+v, %v", c, err)
		}
		if after := w.put("/elsewhere", ""); after != before+1 {
			w.Errorf("something was written: %d, %d", before, after)
		}
	})
}

// refusing is a connection that is refused some of its calls.
type refusing struct {
	broker.Broker
	read, write, grant error
}

func (b *refusing) Get(ctx context.Context, key string) (broker.KV, error) {
	if b.read != nil {
		return broker.KV{}, b.read
	}
	return b.Broker.Get(ctx, key)
}

func (b *refusing) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	if b.read != nil {
		return func(yield func(broker.Page, error) bool) { yield(broker.Page{}, b.read) }
	}
	return b.Broker.List(ctx, prefix)
}

func (b *refusing) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if b.write != nil {
		return []broker.Result{{Err: b.write}}
	}
	return b.Broker.Commit(ctx, txns...)
}

func (b *refusing) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	if b.grant != nil {
		return broker.Session{}, b.grant
	}
	return b.Broker.Grant(ctx, folder, ttl)
}

func TestPermissions_NameWhatIsMissing(t *testing.T) {
	no := broker.NewError("test", "", broker.ErrPermission, nil)
	full := broker.NewError("test", "", broker.ErrNoSpace, nil)
	for name, c := range map[string]struct {
		refusing
		status doctor.Status
		words  string
		trip   doctor.Status
	}{
		"read":  {refusing{read: no}, doctor.Problem, "may not read below /w/", doctor.Unknown},
		"write": {refusing{write: no}, doctor.Problem, "may not write below /w/", doctor.OK},
		"grant": {refusing{grant: no}, doctor.Problem, "may not open sessions", doctor.OK},
		"all":   {refusing{read: no, write: no, grant: no}, doctor.Problem, "may not read below /w/ may not write below /w/ may not open sessions", doctor.Unknown},
		"full":  {refusing{write: full, grant: full}, doctor.Unknown, "full", doctor.OK},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				c.Broker = w.broker
				w.doctor.Broker = &c.refusing
				got, err := w.doctor.Permissions(w.Context())
				if text := got.Found + " " + strings.Join(got.Details, " "); err != nil || got.Status != c.status || !strings.Contains(text, c.words) {
					w.Errorf("%+v, %v", got, err)
				}
				if trip, err := w.doctor.RoundTrip(w.Context()); err != nil || trip.Status != c.trip {
					w.Errorf("%+v, %v", trip, err)
				}
			})
		})
	}
}
