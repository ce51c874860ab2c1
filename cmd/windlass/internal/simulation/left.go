package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/windlasstest"
)

// judgeLeft checks the store once everything has settled: the doctor finds nothing, and
// every lease has a key.
func (w *world) judgeLeft() {
	space, err := keys.New(windlasstest.Namespace)
	if err != nil {
		w.t.Fatal(err)
	}
	d := &doctor.Doctor{Broker: w.store, Space: space, SessionTTL: w.profile.ttl}
	checks, err := d.Namespace(w.t.Context())
	if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Name == doctor.CheckNodes && c.Status == doctor.Warning }) {
		w.sleep(31 * time.Second) // for half a minute a node reports that it was behind
		checks, err = d.Namespace(w.t.Context())
	}
	if err != nil {
		w.fail("the doctor cannot look: %v", err)
		return
	}
	w.judgeDeaths()
	for _, c := range checks {
		if c.Status != doctor.OK && !wanted(c) {
			w.fail("the doctor finds a %s, %s: %s %q", c.Status, c.Name, c.Found, c.Details)
		}
	}
	w.judgeNotes(space)
	w.judgeLeases()
}

// judgeLeases checks that no lease stays without a key. If the answer to a grant was
// lost, the nodes that saw its session begin end it.
func (w *world) judgeLeases() {
	bare, err := w.stage.bareLeases(w.t.Context())
	for began := time.Now(); bare > 0 && time.Since(began) < w.settleMax(); bare, err = w.stage.bareLeases(w.t.Context()) {
		w.sleep(time.Second)
	}
	switch {
	case err != nil:
		w.fail("the leases cannot be counted: %v", err)
	case bare > 0:
		w.fail("%d leases hold no key", bare)
	}
}

// judgeNotes checks that no handover note has outlived its task.
func (w *world) judgeNotes(space keys.Space) {
	kvs, _, err := broker.Collect(w.t.Context(), w.store, space.Tasks())
	if err != nil {
		w.fail("the tasks cannot be read: %v", err)
		return
	}
	exists := map[string]bool{}
	for _, kv := range kvs {
		if p := space.Parse(kv.Key); p.Kind == keys.Task || p.Kind == keys.Props {
			exists[p.Name] = true
		}
	}
	for _, kv := range kvs {
		if p := space.Parse(kv.Key); p.Kind == keys.Handover && !exists[p.Name] {
			w.fail("%s was left behind with %s at revision %d", kv.Key, kv.Value, kv.Modified)
		}
	}
}

// bareLeases counts the leases that hold no key.
func (s *stage) bareLeases(ctx context.Context) (bare int, err error) {
	store, release := s.maintained()
	defer release()
	_, bare, err = store.Leases(ctx, leasesMax)
	return bare, err
}

// leasesMax is more leases than there ever are.
const leasesMax = 10_000

// wanted reports whether a check found nothing but what a storm makes: tasks fail, are
// interrupted, and wait for others that failed; processes are killed, and the broker is
// slow.
func wanted(c doctor.Check) bool {
	switch c.Name {
	case doctor.CheckTasks, doctor.CheckRuns:
		return true
	case doctor.CheckNodes:
		return strings.Contains(c.Found, "died") || strings.Contains(c.Found, "killed") || strings.Contains(c.Found, "renewed slowly")
	}
	return false
}
