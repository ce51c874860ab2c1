package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// follow iterates a watch below the trial's prefix until done returns true, and
// checks every batch on the way. It returns all events.
func (t *trial) follow(name string, from broker.Revision, wait time.Duration, done func(broker.Batch) bool) []broker.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, wait)
	defer cancel()
	c := batchCheck{trial: t, prefix: t.prefix + name, next: from}
	var events []broker.Event
	for batch, err := range t.broker.Watch(ctx, t.prefix+name, from) {
		if err != nil {
			t.Fatalf("the watch from revision %d ended after %d events, complete up to %d: %v",
				from, len(events), c.complete, err)
		}
		c.check(batch)
		events = append(events, batch.Events...)
		if done(batch) {
			return events
		}
	}
	t.Fatalf("the watch from revision %d ended without an error after %d events", from, len(events))
	return nil
}

// endMark is the name of a key that followN puts.
const endMark = "end-of-follow"

// followN follows until n events have come, and then until an event that it causes itself,
// so that it also sees an event too many.
func (t *trial) followN(name string, from broker.Revision, n int) []broker.Event {
	t.Helper()
	var events []broker.Event
	mark := broker.Revision(0)
	t.follow(name, from, patience, func(b broker.Batch) bool {
		for _, event := range b.Events {
			if event.KV.Key != t.prefix+name+endMark {
				events = append(events, event)
			}
		}
		if mark == 0 && len(events) >= n {
			mark = t.put(name+endMark, "")
		}
		return mark != 0 && b.Revision >= mark
	})
	if len(events) != n {
		t.Fatalf("the watch delivered %d events, want %d", len(events), n)
	}
	return events
}

// quiet watches for some time, during which nothing may change.
func (t *trial) quiet(name string, from broker.Revision, wait time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, wait)
	defer cancel()
	for batch, err := range t.broker.Watch(ctx, t.prefix+name, from) {
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the watch from revision %d ended: %v", from, err)
			}
			return
		}
		for _, event := range batch.Events {
			t.Errorf("the watch from revision %d delivered %s, want nothing", from, describe(event))
		}
	}
}

// watchError returns the error of a watch, after which nothing may follow. It calls each
// after each batch.
func (t *trial) watchError(ctx context.Context, prefix string, from broker.Revision, each func()) (last error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, err := range t.broker.Watch(ctx, prefix, from) {
		if last != nil {
			t.Errorf("after the error %q the watch yielded once more, with error %v", last, err)
			return last
		}
		last = err
		each()
	}
	return last
}

// batchCheck checks the batches of any watch.
type batchCheck struct {
	trial    *trial
	prefix   string
	next     broker.Revision // the lowest that an event may have
	complete broker.Revision // of the last batch
}

func (c *batchCheck) check(b broker.Batch) {
	c.trial.Helper()
	if b.Revision < c.complete {
		c.trial.Errorf("a batch is complete up to %d, an earlier one up to %d", b.Revision, c.complete)
	}
	seen := map[string]broker.Revision{}
	for _, event := range b.Events {
		kv := event.KV
		if kv.Modified < c.next {
			c.trial.Errorf("%s is out of order, delivered again or not asked for: it may begin at %d", describe(event), c.next)
		}
		c.next = max(c.next, kv.Modified)
		if kv.Modified > b.Revision {
			c.trial.Errorf("%s comes after the revision %d of its batch", describe(event), b.Revision)
		}
		if !strings.HasPrefix(kv.Key, c.prefix) {
			c.trial.Errorf("%s is not below the watched prefix %s", describe(event), c.prefix)
		}
		if seen[kv.Key] == kv.Modified {
			c.trial.Errorf("%s is delivered twice in one batch", describe(event))
		}
		seen[kv.Key] = kv.Modified
		if event.Deleted && (kv.Value != nil || kv.Created != 0 || kv.Session != 0) {
			c.trial.Errorf("%s has more than its key and revision: %+v", describe(event), kv)
		}
		if !event.Deleted && (kv.Created <= 0 || kv.Created > kv.Modified) {
			c.trial.Errorf("%s was created at %d", describe(event), kv.Created)
		}
	}
	c.complete = b.Revision
	c.next = max(c.next, b.Revision+1)
}

func describe(e broker.Event) string {
	what := "put"
	if e.Deleted {
		what = "deletion"
	}
	return fmt.Sprintf("the %s of %s at revision %d", what, e.KV.Key, e.KV.Modified)
}
