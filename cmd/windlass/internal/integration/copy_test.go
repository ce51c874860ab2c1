package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/lease"
)

// copied is a copy of the tasks of a cluster, with a client that lists from it.
type copied struct {
	*windlass.TaskCopy
	client  *windlass.Client
	listing *listings
}

// listings is a broker that counts its lists, and that can be unavailable.
type listings struct {
	broker.Broker
	begun atomic.Int64
	// open is the number of lists in progress, most its maximum.
	open, most atomic.Int64
	away       atomic.Bool
	// loses makes the next reply to a write get lost.
	loses atomic.Bool
	// late is a prefix whose watches are delayed.
	late string
}

var errAway = broker.NewError("list", "", broker.ErrUnavailable, errors.New("it is away"))

func (l *listings) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		l.begun.Add(1)
		open := l.open.Add(1)
		defer l.open.Add(-1)
		for most := l.most.Load(); most < open && !l.most.CompareAndSwap(most, open); most = l.most.Load() {
		}
		if l.away.Load() {
			yield(broker.Page{}, errAway)
			return
		}
		time.Sleep(time.Millisecond)
		for page, err := range l.Broker.List(ctx, prefix) {
			if !yield(page, err) {
				return
			}
		}
	}
}

func (l *listings) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		for batch, err := range l.Broker.Watch(ctx, prefix, from) {
			if l.away.Load() {
				yield(broker.Batch{}, errAway)
				return
			}
			if prefix == l.late {
				time.Sleep(5 * time.Millisecond)
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (l *listings) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	results := l.Broker.Commit(ctx, txns...)
	if len(txns[0].If) > 0 && l.loses.CompareAndSwap(true, false) {
		for i := range results {
			results[i] = broker.Result{Err: &broker.Error{Op: "commit", Kind: broker.ErrUnavailable, Maybe: true}}
		}
	}
	return results
}

func (c *cluster) copy() copied {
	c.t.Helper()
	l := &listings{Broker: c.Connect()}
	tasks, err := windlass.NewTaskCopy(l, "test")
	c.must(err)
	client, err := windlass.NewClient(tasks.Broker(), "test", windlass.WithTaskCopy(tasks))
	c.must(err)
	return copied{tasks, client, l}
}

// keep updates the copy until the returned function is called.
func (c *copied) keep(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for range c.Watch(ctx) {
		}
	})
	return func() { cancel(); keeping.Wait() }
}

// same fails unless the copy and the broker list the same tasks.
func (c *cluster) same(of copied, f windlass.Filter, what string) {
	c.t.Helper()
	want, err := c.client.Tasks(c.t.Context(), f)
	c.must(err)
	got, err := of.client.Tasks(c.t.Context(), f)
	c.must(err)
	text := func(tasks []windlass.TaskInfo) string {
		value, err := json.Marshal(tasks)
		c.must(err)
		return string(value)
	}
	if text(got) != text(want) {
		c.t.Fatalf("%s, selected by %+v: the copy says\n%s\nand the broker\n%s", what, f, text(got), text(want))
	}
}

func TestTaskCopy_M22_WhatWasWrittenThroughItIsInTheNextList(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		copied := c.copy()
		defer copied.keep(t)()
		c.Advance(time.Second)
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			id := fmt.Sprintf("task-%d", random.IntN(20))
			what := c.change(copied.client, random, id)
			began, listed := time.Now(), copied.listing.begun.Load()
			c.same(copied, windlass.Filter{}, fmt.Sprintf("%d: after %s", i, what))
			if took := time.Since(began); took > 500*time.Millisecond {
				t.Errorf("%d: after %s a list took %v", i, what, took)
			}
			if n := copied.listing.begun.Load() - listed; n > 0 {
				t.Errorf("%d: after %s the broker is asked for lists", i, what)
			}
		}
	})
}

// change makes a random change to a task and describes it.
func (c *cluster) change(client *windlass.Client, random *rand.Rand, id string) string {
	c.t.Helper()
	ctx := c.t.Context()
	switch random.IntN(6) {
	case 0, 1:
		err := client.Submit(ctx, windlass.Submission{ID: id, Spec: windlass.Spec{Type: "x", Priority: random.IntN(5)}, Rerun: true})
		return fmt.Sprintf("submitting %s: %v", id, err)
	case 2:
		return fmt.Sprintf("deleting %s: %v", id, client.Delete(ctx, id))
	case 3, 4:
		d, err := lease.New(client, nil).Dequeue(ctx, "x", "script", time.Minute)
		if err != nil {
			return fmt.Sprintf("a script that gets nothing: %v", err)
		}
		if random.IntN(2) == 0 {
			return fmt.Sprintf("a script that completes %s: %v", d.ID, lease.New(client, nil).Complete(ctx, d.ID, d.Token, nil))
		}
		return fmt.Sprintf("a script that fails %s: %v", d.ID, lease.New(client, nil).Fail(ctx, d.ID, d.Token, windlass.Permanent(errors.New("no"))))
	default:
		p, err := client.Prune(ctx, windlass.Retention{Count: 2, Unblock: true}, windlass.Filter{}, false)
		return fmt.Sprintf("forgetting %q: %v", p.IDs, err)
	}
}

func TestTaskCopy_M22_ListsAsTheBrokerDoesPageByPage(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		copied := c.copy()
		defer copied.keep(t)()
		c.join("n")
		for i := range 30 {
			s := windlass.Submission{ID: fmt.Sprintf("%c%02d", 'a'+i%3, i), Spec: windlass.Spec{Type: []string{"x", "y"}[i%2]}}
			if i > 3 && i%5 == 0 {
				s.Spec.Needs = []string{fmt.Sprintf("%c%02d", 'a'+(i-1)%3, i-1)}
			}
			c.Submit(s)
		}
		c.Advance(5 * time.Second) // records of claims follow
		for _, f := range []windlass.Filter{
			{}, {IDPrefix: "b"}, {IDPrefix: "b1"}, {IDPrefix: "z"}, {After: "b10"}, {After: "b10", IDPrefix: "b"}, {After: "b10", IDPrefix: "a"}, {After: "a", IDPrefix: "c"},
			{Limit: 7}, {Types: []string{"y"}, Limit: 3, After: "a20"}, {Statuses: []windlass.Status{windlass.StatusBlocked}}, {Nodes: []string{"n"}, Limit: 1},
		} {
			c.same(copied, f, "thirty tasks")
		}
		var pages []string
		for f := (windlass.Filter{Limit: 4}); ; {
			tasks, err := copied.client.Tasks(t.Context(), f)
			c.must(err)
			for _, task := range tasks {
				pages = append(pages, task.ID)
				f.After = task.ID
			}
			if len(tasks) < f.Limit {
				break
			}
		}
		if all, err := c.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(all) != 30 || len(pages) != 30 || pages[29] != all[29].ID {
			t.Errorf("page by page there are %d: %q; %v", len(pages), pages, err)
		}
		counts, err := copied.client.Count(t.Context(), windlass.Filter{Limit: 1})
		if want, _ := c.client.Count(t.Context(), windlass.Filter{}); err != nil || fmt.Sprint(counts) != fmt.Sprint(want) || len(want) < 2 {
			t.Errorf("it counts %v, %v; the broker has %v", counts, err, want)
		}
		var input *windlass.BadInputError
		if _, err := copied.client.Tasks(t.Context(), windlass.Filter{Limit: -1}); !errors.As(err, &input) || input.Field != "limit" {
			t.Errorf("a negative limit: %v", err)
		}
	})
}

func TestTaskCopy_M22_WithoutOneTheBrokerIsAskedByOneAtATime(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		copied := c.copy()
		c.submit(3, windlass.Spec{})
		var asking sync.WaitGroup
		for range 10 {
			asking.Go(func() {
				if tasks, err := copied.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 3 {
					t.Errorf("%d tasks, %v", len(tasks), err)
				}
			})
		}
		asking.Wait()
		if most := copied.listing.most.Load(); most != 1 {
			t.Errorf("%d listed at once", most)
		}
		stop := copied.keep(t)
		c.Advance(time.Second)
		copied.listing.away.Store(true)
		c.remove("task-000") // which the watch does not tell
		c.Advance(time.Second)
		if _, err := copied.client.Tasks(t.Context(), windlass.Filter{}); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("while the broker is away: %v", err)
		}
		copied.listing.away.Store(false)
		c.Advance(5 * time.Second)
		before := copied.listing.begun.Load()
		c.same(copied, windlass.Filter{}, "the broker is back")
		if n := copied.listing.begun.Load() - before; n > 0 {
			t.Errorf("it was asked for %d lists", n)
		}
		stop()
		c.same(copied, windlass.Filter{}, "nobody keeps the copy up")
	})
}

func TestTaskCopy_M22_WhatEndsIsInEveryList(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		copied := c.copy()
		copied.listing.late = "/test/state/"
		defer copied.keep(t)()
		const n = 100
		ending := func(cfg *windlass.Config) {
			cfg.Handlers = map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(rand.Int64N(int64(5 * time.Second)))):
				}
				return ctx.Err()
			})}
		}
		c.submit(n, windlass.Spec{})
		c.Advance(time.Second)
		c.join("a", ending)
		c.join("b", ending)
		for range 3000 {
			tasks, err := copied.client.Tasks(t.Context(), windlass.Filter{})
			if err != nil || len(tasks) != n {
				t.Fatalf("%d tasks are listed, want %d: %v", len(tasks), n, err)
			}
			time.Sleep(2 * time.Millisecond)
		}
		counts, err := copied.client.Count(t.Context(), windlass.Filter{})
		if err != nil || counts[windlass.StatusCompleted] != n {
			t.Errorf("%v, %v", counts, err)
		}
		// What is deleted by another is gone after a while, and by this one at once.
		c.Submit(windlass.Submission{ID: "x", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}})
		c.must(copied.client.Submit(t.Context(), windlass.Submission{ID: "y", Spec: windlass.Spec{NotBefore: time.Now().Add(time.Hour)}}))
		c.Advance(time.Second)
		c.must(copied.client.Delete(t.Context(), "y"))
		c.same(copied, windlass.Filter{}, "it has deleted one")
		c.remove("x")
		c.Advance(2 * time.Second)
		c.same(copied, windlass.Filter{}, "another has deleted one")
	})
}

func TestTaskCopy_M22_AWriteWhoseReplyWasLostIsInTheNextList(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		copied := c.copy()
		copied.listing.late = "/test/tasks/"
		defer copied.keep(t)()
		c.Advance(time.Second)
		for i := range 5 {
			copied.listing.loses.Store(true)
			id := fmt.Sprintf("task-%d", i)
			if err := copied.client.Submit(t.Context(), windlass.Submission{ID: id}); err != nil && !windlass.AlreadySubmitted(err) {
				t.Fatal(err)
			}
			if copied.listing.loses.Load() {
				t.Fatal("no reply was lost")
			}
			c.same(copied, windlass.Filter{}, "submitted "+id)
		}
		c.Advance(time.Minute)
		before := copied.listing.begun.Load()
		c.same(copied, windlass.Filter{}, "a minute later")
		if n := copied.listing.begun.Load() - before; n > 0 {
			t.Errorf("the broker was asked for %d lists", n)
		}
	})
}
