package brokertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

var endRules = []Rule{
	{Number: "B52", Name: "closed_broker_says_so", test: closed,
		Sentence: "After Close every method returns ErrClosed, and Close again is no error."},
	{Number: "B53", Name: "close_ends_a_watch", test: closeEndsWatch,
		Sentence: "Close ends a watch under way with ErrClosed."},
	{Number: "B54", Name: "ended_context_is_unavailable", test: endedContext,
		Sentence: "With a context that has ended every method returns, promptly, ErrUnavailable with the context's error as its cause."},
	{Number: "B55", Name: "connections_share_the_store", test: connectionsShare, reopen: true,
		Sentence: "What was committed through one connection is seen at once through another."},
	{Number: "B56", Name: "close_ends_no_session", test: closeEndsNoSession, reopen: true,
		Sentence: "Closing a connection ends no session and no other connection."},
}

// everyMethod calls each method that returns an error, and passes it to got.
func everyMethod(t *trial, ctx context.Context, id broker.SessionID, got func(method string, err error)) {
	b, k := t.broker, t.prefix+"a"
	_, err := b.Get(ctx, k)
	got("Get", err)
	pages := 0
	for _, err := range b.List(ctx, t.prefix) {
		got("List", err)
		pages++
	}
	put := broker.Txn{Then: []broker.Op{broker.Put(k, nil)}}
	read := broker.Txn{Then: []broker.Op{broker.Read(k)}}
	results := b.Commit(ctx, put, read, put)
	if len(results) != 3 {
		t.Errorf("Commit of 3 transactions returned %d results", len(results))
	}
	for _, r := range results {
		got("Commit", r.Err)
	}
	batches := 0
	for _, err := range b.Watch(ctx, t.prefix, 1<<40) {
		got("Watch", err)
		batches++
	}
	if pages != 1 || batches != 1 {
		t.Errorf("List yielded %d times and Watch %d times, want an error each", pages, batches)
	}
	_, err = b.Grant(ctx, t.folder, t.opts.MinTTL)
	got("Grant", err)
	_, err = b.KeepAlive(ctx, id)
	got("KeepAlive", err)
	got("Revoke", b.Revoke(ctx, id))
}

func closed(t *trial) {
	s := t.grant()
	for range 2 {
		t.close(t.broker)
		everyMethod(t, t.ctx, s.ID, func(method string, err error) {
			t.wantKind(method, err, broker.ErrClosed)
		})
	}
}

func closeEndsWatch(t *trial) {
	rev := t.put("a/x", "")
	first := make(chan struct{})
	var last error
	var watch sync.WaitGroup
	watch.Go(func() {
		begun := sync.OnceFunc(func() { close(first) })
		defer begun()
		last = t.watchError(t.ctx, t.prefix+"a/", rev, begun)
	})
	<-first
	t.close(t.broker)
	watch.Wait()
	t.wantKind("the watch", last, broker.ErrClosed)
}

func endedContext(t *trial) {
	s := t.grant()
	t.put("a", "")
	canceled, cancel := context.WithCancel(t.ctx)
	cancel()
	expired, cancel := context.WithDeadline(t.ctx, time.Now().Add(-time.Second))
	defer cancel()
	started := time.Now()
	for _, ctx := range []context.Context{canceled, expired} {
		everyMethod(t, ctx, s.ID, func(method string, err error) {
			t.wantKind(method, err, broker.ErrUnavailable)
			if !errors.Is(err, ctx.Err()) {
				t.Errorf("%s: error %v does not have the cause %v", method, err, ctx.Err())
			}
		})
	}
	if took := time.Since(started); took > patience {
		t.Errorf("calls with a context that had ended took %v", took)
	}
	t.get("a") // the connection still works
}

func (t *trial) reopen() broker.Broker {
	t.Helper()
	b := t.opts.Reopen(t.T, t.broker)
	t.Cleanup(func() { t.close(b) })
	return b
}

func connectionsShare(t *trial) {
	other := t.reopen()
	k := t.prefix + "a"
	for i := range 10 {
		rev := t.put("a", string(rune('0'+i)))
		kv, err := other.Get(t.ctx, k)
		if err != nil || kv.Modified != rev {
			t.Errorf("the other connection read %+v, %v, want revision %d", kv, err, rev)
		}
		r, err := broker.CommitOne(t.ctx, other, when(broker.Modified(k, rev), broker.Put(k, nil)))
		if err != nil || !r.OK {
			t.Errorf("the other connection's transaction has result %+v, %v, want OK", r, err)
		}
		if kv := t.get("a"); kv.Modified != r.Revision {
			t.Errorf("the first connection read revision %d, want %d", kv.Modified, r.Revision)
		}
	}
}

func closeEndsNoSession(t *trial) {
	other := t.reopen()
	s := t.grant()
	t.write(broker.PutSession(t.prefix+"a", nil, s.ID))
	t.close(t.broker)
	if kv, err := other.Get(t.ctx, t.prefix+"a"); err != nil || kv.Session != s.ID {
		t.Errorf("after Close the key is %+v, %v, want it on session %d", kv, err, s.ID)
	}
	if _, err := other.KeepAlive(t.ctx, s.ID); err != nil {
		t.Errorf("KeepAlive through the other connection: %v", err)
	}
	if err := other.Revoke(t.ctx, s.ID); err != nil {
		t.Errorf("Revoke through the other connection: %v", err)
	}
}
