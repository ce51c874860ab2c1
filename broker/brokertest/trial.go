package brokertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// patience is how long a rule waits for what must happen. It is generous, for a
// real store on a loaded machine; what is broken never happens at all.
const patience = 30 * time.Second

// trial is one rule being checked: a connection, and a prefix nobody else uses.
type trial struct {
	*testing.T
	broker broker.Broker
	opts   Options
	ctx    context.Context
	prefix string // ends in a slash
	folder string // of sessions, beside it
}

func newTrial(t *testing.T, b broker.Broker, opts Options) *trial {
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	t.Cleanup(func() {
		cancel()
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	own := strconv.FormatUint(rand.Uint64(), 36) + "/"
	return &trial{T: t, broker: b, opts: opts, ctx: ctx, prefix: "/brokertest/" + own, folder: "/brokertest-sessions/" + own}
}

// commit commits one transaction, which must not be refused.
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

// names lists the keys below a prefix, without the trial's own prefix.
func (t *trial) names(name string) []string {
	t.Helper()
	kvs, _ := t.list(name)
	names := make([]string, 0, len(kvs))
	for _, kv := range kvs {
		names = append(names, strings.TrimPrefix(kv.Key, t.prefix))
	}
	return names
}

// fill puts n keys below a prefix, as many in a transaction as it can hold, and
// returns the revision of the last.
func (t *trial) fill(name string, n int) broker.Revision {
	t.Helper()
	var last broker.Revision
	var ops []broker.Op
	for i := range n {
		ops = append(ops, broker.Put(t.prefix+name+strconv.Itoa(i), []byte("value "+strconv.Itoa(i))))
		if len(ops) == broker.TxnOpsMax || i == n-1 {
			last = t.write(ops...)
			ops = nil
		}
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

// wantKind checks that an error is what every error of a broker has to be, and
// of this kind. It may be called from any goroutine.
func (t *trial) wantKind(what string, err, kind error) {
	t.Helper()
	var e *broker.Error
	switch {
	case err == nil:
		t.Errorf("%s: no error, want %q", what, kind)
	case !errors.As(err, &e):
		t.Errorf("%s: error of type %T, want *broker.Error: %v", what, err, err)
	case e.Kind != kind:
		t.Errorf("%s: error %q has kind %q, want %q", what, err, e.Kind, kind)
	case e.Op == "":
		t.Errorf("%s: error %q does not name the operation", what, err)
	}
}
