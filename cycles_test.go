package windlass_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// meanwhile is a broker before whose first write something else happens, and that
// loses the reply to the first write that says nothing of task b.
type meanwhile struct {
	broker.Broker
	first func()
	loses bool
}

func (m *meanwhile) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	writes, ofB := false, false
	for _, op := range txns[0].Then {
		writes = writes || op.Kind != broker.OpRead
		ofB = ofB || bytes.Contains(op.Value, []byte(`"b"`))
	}
	if first := m.first; writes && first != nil {
		m.first = nil
		first()
	}
	results := m.Broker.Commit(ctx, txns...)
	if m.loses && writes && !ofB {
		m.loses = false
		results[0] = broker.Result{Err: &broker.Error{Op: "commit", Kind: broker.ErrUnavailable, Cause: errors.New("the reply was lost"), Maybe: true}}
	}
	return results
}

// needing is a task that waits for others.
func needing(id string, needs ...string) windlass.Submission {
	return windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t", Needs: needs}}
}

// everythingOf is all that a namespace has of some tasks, but for revisions.
func (c *cluster) everythingOf(ids ...string) map[string]string {
	c.t.Helper()
	kvs, _, err := broker.Collect(c.t.Context(), c.store, "/test/")
	if err != nil {
		c.t.Fatal(err)
	}
	stored := map[string]string{}
	for _, kv := range kvs {
		if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(strings.Split(kv.Key, "/"), id) }) {
			stored[kv.Key] = string(kv.Value)
		}
	}
	return stored
}

func TestSubmit_Z12_AHalfOfACycleThatIsSubmittedMeanwhileIsTakenBack(t *testing.T) {
	for name, before := range map[string]func(c *cluster) (last windlass.Submission, after func()){
		"a new task": func(*cluster) (windlass.Submission, func()) { return needing("a", "b"), func() {} },
		"a new task whose last failure is remembered": func(c *cluster) (windlass.Submission, func()) {
			mark := broker.Txn{Then: []broker.Op{broker.Put("/test/tasks/a/failed", []byte(`{"state":"failed"}`))}}
			if _, err := broker.CommitOne(c.t.Context(), c.store, mark); err != nil {
				c.t.Fatal(err)
			}
			return needing("a", "b"), func() {}
		},
		"a new job": func(*cluster) (windlass.Submission, func()) {
			s := needing("a_t", "b")
			s.Spec.Job = true
			return s, func() {}
		},
		"a pending task that is updated": func(c *cluster) (windlass.Submission, func()) {
			old := needing("a")
			old.Props = json.RawMessage(`{"old":true}`)
			if err := c.client.Submit(c.t.Context(), old); err != nil {
				c.t.Fatal(err)
			}
			next := needing("a", "b")
			next.Update = true
			return next, func() {}
		},
		"a failed job that is run again": func(c *cluster) (windlass.Submission, func()) {
			n := c.join("n", func(cfg *windlass.Config) {
				cfg.Handlers["t"] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
					return windlass.Permanent(errors.New("no"))
				})
			})
			old := needing("a_t")
			old.Spec.Job = true
			if err := c.client.Submit(c.t.Context(), old); err != nil {
				c.t.Fatal(err)
			}
			c.eventually(time.Minute, "it failed", func() bool { return c.status("a_t") == windlass.StatusFailed })
			if err := n.leave(); err != nil {
				c.t.Fatal(err)
			}
			next := needing("a_t", "b")
			next.Spec.Job, next.Rerun = true, true
			return next, func() {}
		},
		"a held task that is to run again": func(c *cluster) (windlass.Submission, func()) {
			n := c.join("n", pulling("t"))
			var held *windlass.Dequeued
			for i, s := range []windlass.Submission{needing("a"), needing("a", "c")} {
				s.Requeue = i > 0
				if err := c.client.Submit(c.t.Context(), s); err != nil {
					c.t.Fatal(err)
				}
				if i == 0 {
					var err error
					if held, err = n.Dequeue(c.t.Context(), "t"); err != nil {
						c.t.Fatal(err)
					}
				}
			}
			c.sleep(time.Second) // the node writes the history of the claim
			next := needing("a", "b")
			next.Requeue = true
			return next, func() { _ = held.Release(c.t.Context()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inEach(t, func(t *testing.T, c *cluster) {
				c.t = t
				last, after := before(c)
				defer after()
				was := c.everythingOf(last.ID)
				between := &meanwhile{Broker: c.store, loses: true}
				client, err := windlass.NewClient(between, "test")
				if err != nil {
					t.Fatal(err)
				}
				between.first = func() {
					// Through a third one, and from a client that saw nothing of it.
					for i, err := range c.client.SubmitAll(t.Context(), []windlass.Submission{needing("b", "x"), needing("x", last.ID)}) {
						if err != nil {
							t.Errorf("%d: %v", i, err)
						}
					}
				}
				var input *windlass.BadInputError
				path := strings.Join([]string{last.ID, "b", "x", last.ID}, " → ")
				effects, errs := client.Enqueue(t.Context(), []windlass.Submission{last})
				if err := errs[0]; !errors.As(err, &input) || input.Field != "needs" || !strings.Contains(err.Error(), path) || effects[0] != "" {
					t.Errorf("the second half: %q, %v, want an error that names %s", effects[0], err, path)
				}
				if between.loses {
					t.Error("nothing was taken back")
				}
				if now := c.everythingOf(last.ID); fmt.Sprint(now) != fmt.Sprint(was) {
					t.Errorf("after it was taken back:\n%v\nbefore:\n%v", now, was)
				}
				if d, err := c.client.Task(t.Context(), "x"); err != nil || !slices.Equal(d.Spec.Needs, []string{last.ID}) {
					t.Errorf("the first half: %+v, %v", d, err)
				}
			})
		})
	}
}

func TestSubmit_Z12_OfTwoHalvesOfACycleFromTwoClientsAtOnceOneIsAccepted(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		for i := range 100 {
			a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
			var errs [2]error
			var both sync.WaitGroup
			both.Go(func() { errs[0] = c.client.Submit(t.Context(), needing(a, b)) })
			both.Go(func() { errs[1] = c.client.Submit(t.Context(), needing(b, a)) })
			both.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("pair %d: %v and %v", i, errs[0], errs[1])
			}
		}
		if tasks, err := c.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 100 {
			t.Errorf("%d tasks, %v", len(tasks), err)
		}
	})
}

func TestExplain_Z12_NamesTheCycle(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		// No client lets it happen; one that dies between its write and its second look can.
		for id, need := range map[string]string{"a": "b", "b": "a", "c": "a"} {
			txn := broker.Txn{Then: []broker.Op{broker.Put("/test/tasks/"+id, fmt.Appendf(nil, `{"type":"t","needs":[%q]}`, need))}}
			if _, err := broker.CommitOne(t.Context(), c.store, txn); err != nil {
				t.Fatal(err)
			}
		}
		e, err := c.client.Explain(t.Context(), "a")
		if err != nil || !slices.Equal(e.Cycle, []string{"a", "b", "a"}) || !strings.Contains(e.Why, "a → b → a") {
			t.Errorf("of one on the cycle: %+v, %v", e, err)
		}
		if e, err = c.client.Explain(t.Context(), "c"); err != nil || e.Cycle != nil || e.Why != "it waits for a" {
			t.Errorf("of one that waits for the cycle: %+v, %v", e, err)
		}
	})
}
