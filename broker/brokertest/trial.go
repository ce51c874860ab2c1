package brokertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// patience is how long a rule waits for an event. It is generous, for a real store on a
// loaded machine.
const patience = 30 * time.Second

// trial is the check of one rule, with a connection and a prefix of its own.
type trial struct {
	*testing.T
	broker broker.Broker
	opts   Options
	ctx    context.Context
	prefix string // ends in a slash
	folder string // of sessions
}

func newTrial(t *testing.T, b broker.Broker, opts Options) *trial {
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	own := strconv.FormatUint(rand.Uint64(), 36) + "/"
	trial := &trial{T: t, broker: b, opts: opts, ctx: ctx, prefix: "/brokertest/" + own, folder: "/brokertest-sessions/" + own}
	t.Cleanup(func() {
		cancel()
		trial.close(b)
	})
	return trial
}

func (t *trial) close(b broker.Broker) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// when returns the transaction that applies operations if a condition holds.
func when(cond broker.Cond, then ...broker.Op) broker.Txn {
	return broker.Txn{If: []broker.Cond{cond}, Then: then}
}

// commit commits one transaction, which must not return an error.
func (t *trial) commit(txn broker.Txn) broker.Result {
	t.Helper()
	r, err := broker.CommitOne(t.ctx, t.broker, txn)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return r
}

// write commits operations without a condition and returns their revision.
func (t *trial) write(ops ...broker.Op) broker.Revision {
	t.Helper()
	r := t.commit(broker.Txn{Then: ops})
	if !r.OK || r.Revision <= 0 {
		t.Fatalf("a transaction without conditions has result %+v, want OK and a revision", r)
	}
	return r.Revision
}

// tryWrite is write for goroutines other than the test's. It returns zero after an error.
func (t *trial) tryWrite(ops ...broker.Op) broker.Revision {
	r, err := broker.CommitOne(t.ctx, t.broker, broker.Txn{Then: ops})
	if err != nil {
		t.Errorf("Commit: %v", err)
	}
	return r.Revision
}

func (t *trial) put(name, value string) broker.Revision {
	t.Helper()
	return t.write(broker.Put(t.prefix+name, []byte(value)))
}

func (t *trial) get(name string) broker.KV {
	t.Helper()
	kv, err := t.broker.Get(t.ctx, t.prefix+name)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return kv
}

func (t *trial) wantAbsent(names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := t.broker.Get(t.ctx, t.prefix+name)
		t.wantKind("Get of "+name, err, broker.ErrNotFound)
	}
}

func (t *trial) list(name string) ([]broker.KV, broker.Revision) {
	t.Helper()
	kvs, rev, err := broker.Collect(t.ctx, t.broker, t.prefix+name)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	return kvs, rev
}

// wantNames compares the keys below a prefix, without the trial's own prefix.
func (t *trial) wantNames(name string, want ...string) {
	t.Helper()
	kvs, _ := t.list(name)
	var names []string
	for _, kv := range kvs {
		names = append(names, strings.TrimPrefix(kv.Key, t.prefix))
	}
	if !slices.Equal(names, want) {
		t.Errorf("the keys below %q are\n%q, want\n%q", name, names, want)
	}
}

// fill puts n keys below a prefix in as few transactions as possible, and returns the
// revision of the last.
func (t *trial) fill(name string, n int) (last broker.Revision) {
	t.Helper()
	ops := make([]broker.Op, n)
	for i := range ops {
		ops[i] = broker.Put(t.prefix+name+strconv.Itoa(i), []byte("value "+strconv.Itoa(i)))
	}
	for some := range slices.Chunk(ops, broker.TxnOpsMax) {
		last = t.write(some...)
	}
	return last
}

func (t *trial) grant() broker.Session {
	t.Helper()
	s, err := t.broker.Grant(t.ctx, t.folder, t.opts.MinTTL)
	if err != nil {
		t.Fatalf("Grant: %v", err)
	}
	if s.ID == 0 || s.TTL < t.opts.MinTTL {
		t.Fatalf("Grant(%v) returned %+v, want a session with at least this TTL", t.opts.MinTTL, s)
	}
	return s
}

func (t *trial) revoke(id broker.SessionID) {
	t.Helper()
	if err := t.broker.Revoke(t.ctx, id); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
}

// wantKind checks that an error is a valid *broker.Error, and its kind. Any goroutine may
// call it.
func (t *trial) wantKind(what string, err, kind error) {
	t.Helper()
	e, ok := errors.AsType[*broker.Error](err)
	switch {
	case !ok:
		t.Errorf("%s: error of type %T, want *broker.Error: %v", what, err, err)
	case e.Kind != kind:
		t.Errorf("%s: error %q has kind %q, want %q", what, err, e.Kind, kind)
	case e.Op == "":
		t.Errorf("%s: error %q does not name the operation", what, err)
	}
}
