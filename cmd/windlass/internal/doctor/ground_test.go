package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
)

func TestRoundTrip_IsComparedWithTheTimeOfARenewal(t *testing.T) {
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

func TestGround_WritesNothing(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.writesNothing(func() {
			if _, err := w.doctor.RoundTrip(w.Context()); err != nil {
				w.Error(err)
			}
			c, err := w.doctor.Permissions(w.Context())
			if err != nil || c.Status != doctor.OK || !strings.Contains(c.Found, "/w/") {
				w.Errorf("%+v, %v", c, err)
			}
		})
	})
}

// full is a connection to a broker without space.
type full struct{ broker.Broker }

var errFull = broker.NewError("test", "", broker.ErrNoSpace, nil)

func (b full) Commit(context.Context, ...broker.Txn) []broker.Result {
	return []broker.Result{{Err: errFull}}
}

func (b full) Grant(context.Context, string, time.Duration) (broker.Session, error) {
	return broker.Session{}, errFull
}

func TestPermissions_NamesMissingRights(t *testing.T) {
	for forbidden, c := range map[string]struct {
		status doctor.Status
		words  string
		trip   doctor.Status
	}{
		"get,list":              {doctor.Problem, "may not read below /w/", doctor.Unknown},
		"commit":                {doctor.Problem, "may not write below /w/", doctor.OK},
		"grant":                 {doctor.Problem, "may not open sessions", doctor.OK},
		"get,list,commit,grant": {doctor.Problem, "may not read below /w/ may not write below /w/ may not open sessions", doctor.Unknown},
		"full":                  {doctor.Unknown, "full", doctor.OK},
	} {
		t.Run(forbidden, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.doctor.Broker = full{w.broker}
				if forbidden != "full" {
					w.doctor.Broker = faulty.Wrap(w.connect(), faulty.MustParse("forbid on "+forbidden))
				}
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
