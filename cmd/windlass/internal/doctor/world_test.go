package doctor_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/doctor"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/returns"
	"github.com/windlass-go/windlass/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store in virtual time, with a namespace to be examined.
type world struct {
	*testing.T
	// connect opens another connection.
	connect func() broker.Broker
	broker  broker.Broker
	space   keys.Space
	doctor  *doctor.Doctor
	// looks are the second looks that were announced.
	looks []time.Duration
}

func newWorld(t *testing.T, connect func() broker.Broker) *world {
	space, err := keys.New("w")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, connect: connect, broker: connect(), space: space}
	w.doctor = &doctor.Doctor{
		Broker: w.broker, Space: space, Waiting: func(d time.Duration, _ string) { w.looks = append(w.looks, d) },
	}
	return w
}

// put writes a key without a session.
func (w *world) put(key, value string) broker.Revision {
	return w.commit(broker.Put(key, []byte(value)))
}

// isAway adds a node that is gone and is to be back, and a task that is kept for it.
func (w *world) isAway(name, info string, within time.Duration) {
	w.put(w.space.NodeReturn(name), string(returns.Promise{Until: time.Now().Add(within), Info: []byte(info)}.Encode()))
	w.put(w.space.Task("kept"), `{"type":"t","submitted_at":"1999-12-31T00:00:00Z"}`)
	w.put(w.space.Handover("kept"), `{"node":"`+name+`"}`)
}

// putOn writes a key with a session.
func (w *world) putOn(session broker.SessionID, key, value string) {
	w.Helper()
	w.commit(broker.PutSession(key, []byte(value), session))
}

// writesNothing checks that f leaves the revision of the store as it is.
func (w *world) writesNothing(f func()) {
	w.Helper()
	before := w.put("/elsewhere", "")
	f()
	if after := w.put("/elsewhere", ""); after != before+1 {
		w.Errorf("something was written: %d, %d", before, after)
	}
}

func (w *world) commit(ops ...broker.Op) broker.Revision {
	w.Helper()
	r, err := broker.CommitOne(w.Context(), w.broker, broker.Txn{Then: ops})
	if err != nil {
		w.Fatal(err)
	}
	return r.Revision
}

func (w *world) has(key string) bool {
	w.Helper()
	_, err := w.broker.Get(w.Context(), key)
	return err == nil
}

func (w *world) session(ttl time.Duration) broker.SessionID {
	w.Helper()
	s, err := w.broker.Grant(w.Context(), "", ttl)
	if err != nil {
		w.Fatal(err)
	}
	return s.ID
}

// node registers a node with a session that lasts longer than the test.
func (w *world) node(name string, change ...func(*windlass.NodeInfo)) broker.SessionID {
	w.Helper()
	info := windlass.NodeInfo{Name: name, Types: []string{"t"}, SessionTTL: "15s", Incarnation: "of " + name, Version: "v1"}
	for _, f := range change {
		f(&info)
	}
	id := w.session(200 * time.Second)
	w.putOn(id, w.space.NodeInfo(name), w.json(info))
	return id
}

func (w *world) json(value any) string {
	w.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

// task writes a task, submitted long ago.
func (w *world) task(id string, change ...func(*windlass.Spec)) {
	w.Helper()
	spec := windlass.Spec{Type: "t", SubmittedAt: time.Now().Add(-time.Hour)}
	for _, f := range change {
		f(&spec)
	}
	w.put(w.space.Task(id), w.json(spec))
}

func needs(ids ...string) func(*windlass.Spec) { return func(s *windlass.Spec) { s.Needs = ids } }

// claim writes a claim of a task by a node, with a session or with none.
func (w *world) claim(id, node string, session broker.SessionID) {
	w.Helper()
	owner, record := []byte(`{"node":"`+node+`"}`), []byte(`{"incarnation":"of `+node+`"}`)
	w.commit(
		broker.Op{Kind: broker.OpPut, Key: w.space.Owner(id), Value: owner, Session: session},
		broker.Op{Kind: broker.OpPut, Key: w.space.Claim(id), Value: record, Session: session},
	)
}

// healthy fills the namespace with what a working cluster has, and returns the
// session of its node n.
func (w *world) healthy() broker.SessionID {
	w.Helper()
	w.put(w.space.Layout(), `{"version":1,"later":"fields"}`)
	n := w.node("n")
	w.task("runs")
	w.put(w.space.Props("runs"), `{"a":1}`)
	w.claim("runs", "n", n)
	w.task("sleeps")
	w.put(w.space.State("sleeps"), `{"state":"sleeping","until":"2100-01-01T00:00:00Z"}`)
	w.claim("sleeps", "n", n)
	w.task("blocked", needs("runs", "never submitted"))
	w.task("later", func(s *windlass.Spec) { s.NotBefore = time.Now().Add(time.Hour) })
	w.put(w.space.Props("older"), "")
	w.claim("older", "n", n)
	w.put(w.space.State("done"), `{"state":"completed"}`)
	w.put(w.space.State("deleted"), `{"state":"runnable"}`)
	w.put("/w/elections/e", "unknown")
	w.put("/w/tasks/_metafora", "unknown")
	w.putOn(n, w.space.NodeCommand("n", "1"), "freeze")
	return n
}

// history is that of a task whose claims were interrupted some time ago by something.
func (w *world) history(event statemachine.Event, ago time.Duration, interruptions int) string {
	w.Helper()
	var h statemachine.History
	for i := range interruptions {
		h.Entries = append(h.Entries, statemachine.HistoryEntry{
			At: time.Now().Add(-ago), Event: event, Node: string(rune('a' + i%2)), Token: int64(i), Interruption: true,
		})
	}
	return w.json(h)
}

// examine returns the checks by name.
func (w *world) examine() map[string]doctor.Check {
	w.Helper()
	w.looks = nil
	checks, err := w.doctor.Namespace(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	byName := map[string]doctor.Check{}
	for _, c := range checks {
		if before, several := byName[c.Name]; several { // the worst of them, with what all have found
			if c.Status != doctor.Problem {
				c.Status = before.Status
			}
			c.Found, c.Details = before.Found+"; "+c.Found, append(before.Details, c.Details...)
		}
		byName[c.Name] = c
	}
	return byName
}

// expect examines: one check must have a status and some words, all others must be OK.
func (w *world) expect(check string, status doctor.Status, words ...string) {
	w.Helper()
	for name, c := range w.examine() {
		if name != check {
			if c.Status != doctor.OK {
				w.Errorf("%s is not silent: %+v", name, c)
			}
			continue
		}
		text := c.Found + " " + strings.Join(c.Details, " ")
		for _, word := range words {
			if !strings.Contains(text, word) {
				w.Errorf("%q does not say %q", text, word)
			}
		}
		if c.Status != status || (status != doctor.OK && c.Do == "") {
			w.Errorf("%+v, want it to be %s", c, status)
		}
	}
}

// meddling is a connection that calls before just before a commit.
type meddling struct {
	broker.Broker
	before func()
}

func (b *meddling) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if b.before != nil {
		b.before()
	}
	return b.Broker.Commit(ctx, txns...)
}
