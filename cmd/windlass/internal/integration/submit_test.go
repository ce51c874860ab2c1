package integration_test

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
	"github.com/windlass-go/windlass/lease"
)

func TestSubmit_M20_AnIDThatIsLiveOrHasEndedIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("n", also("ends", done))
		submit := func(s windlass.Submission) error { return c.client.Submit(t.Context(), s) }
		task := windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "ends"}, Props: json.RawMessage(`{"x": 1}`)}
		c.must(submit(task))
		live := windlass.Submission{ID: "live"}
		c.must(submit(live))
		var exists *windlass.ExistsError
		if err := submit(live); !errors.As(err, &exists) || !exists.Same || !errors.Is(err, windlass.ErrExists) {
			t.Errorf("again while it is live: %v", err)
		}
		if err := submit(windlass.Submission{ID: "live", Spec: windlass.Spec{Priority: 5}}); !errors.As(err, &exists) || exists.Same {
			t.Errorf("another one while it is live: %v", err)
		}
		c.WaitFor(time.Second, "a", windlass.StatusCompleted)
		task.Props = json.RawMessage(`{"x":1}`) // spacing makes no difference
		var finished *windlass.FinishedError
		err := submit(task)
		if !errors.As(err, &finished) || finished.State != "completed" || !finished.Same || !errors.Is(err, windlass.ErrFinished) ||
			!strings.Contains(err.Error(), "completed") || !windlass.AlreadySubmitted(err) {
			t.Errorf("again after it is done: %v", err)
		}
		task.Rerun = true
		if err := submit(task); err != nil {
			t.Errorf("run afresh: %v", err)
		}
		c.WaitUntil(time.Second, "it ran again", func() bool { return c.startsOf("a") == 2 })
		c.WaitFor(time.Second, "a", windlass.StatusCompleted)
	})
}

func TestSubmit_AFileOfTasksTwiceChangesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		var all []windlass.Submission
		for i := range 700 {
			all = append(all, windlass.Submission{ID: fmt.Sprintf("t|%d", i), Props: json.RawMessage(fmt.Sprint(i))})
		}
		c.Submit(all...)
		for _, err := range c.client.SubmitAll(t.Context(), all) {
			if !windlass.AlreadySubmitted(err) {
				t.Fatal(err)
			}
		}
		if tasks, err := c.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 700 {
			t.Errorf("%d tasks, %v", len(tasks), err)
		}
	})
}

func TestSubmit_BadInputNamesTheFieldTheValueAndTheLimit(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		many := make([]string, windlass.NeedsMax+1)
		for i := range many {
			many[i] = fmt.Sprint("n", i)
		}
		for field, bad := range map[string][]windlass.Submission{
			"task ID":  {{ID: ""}, {ID: "a/b"}, {ID: "_x"}, {ID: ".."}, {ID: strings.Repeat("x", 513)}, {ID: "a\n"}},
			"priority": {{ID: "a", Spec: windlass.Spec{Priority: 1001}}, {ID: "a", Spec: windlass.Spec{Priority: -1001}}},
			"type":     {{ID: "a", Spec: windlass.Spec{Type: "*"}}, {ID: "a", Spec: windlass.Spec{Type: strings.Repeat("t", 129)}}},
			"props": {{ID: "a", Props: json.RawMessage("{")}, {ID: "a", Props: json.RawMessage(`"` + strings.Repeat("x", windlass.PropsBytesMax) + `"`)},
				{ID: "a", Props: json.RawMessage(strings.Repeat(`{"[\"[":[`, 501) + strings.Repeat(`]}`, 501))},
				{ID: "a", Props: json.RawMessage(`{"url":"x","steps":[{"url":"y","url":"z"}]}`)}},
			"needs": {{ID: "a", Spec: windlass.Spec{Needs: many}}, {ID: "a", Spec: windlass.Spec{Needs: []string{"a"}}},
				{ID: "a", Spec: windlass.Spec{Needs: []string{"b/c"}}}, {ID: "a", Spec: windlass.Spec{Needs: []string{"a|b"}}}},
		} {
			for _, s := range bad {
				if field == "needs" && len(s.Spec.Needs) == 1 && s.Spec.Needs[0] == "a|b" {
					// Only a cycle once the child exists: it waits for its parent.
					c.Submit(windlass.Submission{ID: "a|b"})
				}
				var input *windlass.BadInputError
				if err := c.client.Submit(t.Context(), s); !errors.As(err, &input) || input.Field != field || input.Limit == "" {
					t.Errorf("%s: %v", field, err)
				}
			}
		}
		if tasks, err := c.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 1 {
			t.Errorf("something was submitted: %v, %v", tasks, err)
		}
	})
}

func TestSubmit_Z12_TasksThatWouldWaitForThemselvesAreRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.Submit(needing("a", "b"), needing("b", "c"), needing("x", "y"))
		err := c.client.Submit(t.Context(), needing("c", "a"))
		if err == nil || !strings.Contains(err.Error(), "c → a → b → c") {
			t.Errorf("c needs a needs b needs c: %v", err)
		}
		errs := c.client.SubmitAll(t.Context(), []windlass.Submission{needing("p", "q"), needing("q", "p"), needing("r")})
		if errs[0] == nil || errs[1] == nil || errs[2] != nil {
			t.Errorf("within one call: %v", errs)
		}
	})
}

// meanwhile is a broker that calls first before its first write, and loses the reply to the
// first write that does not mention task b.
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

// needing returns a task that needs others.
func needing(id string, needs ...string) windlass.Submission {
	return windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t", Needs: needs}}
}

// everythingOf returns all keys and values of some tasks.
func (c *cluster) everythingOf(ids ...string) map[string]string {
	c.t.Helper()
	stored := map[string]string{}
	for _, kv := range c.collect("/test/") {
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
			c.put("/test/tasks/a/failed", `{"state":"failed"}`)
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
			c.Submit(old)
			next := needing("a", "b")
			next.Update = true
			return next, func() {}
		},
		"a failed job that is run again": func(c *cluster) (windlass.Submission, func()) {
			n := c.join("n", also("t", failing))
			old := needing("a_t")
			old.Spec.Job = true
			c.Submit(old)
			c.WaitFor(time.Minute, "a_t", windlass.StatusFailed)
			c.must(n.Stop())
			next := needing("a_t", "b")
			next.Spec.Job, next.Rerun = true, true
			return next, func() {}
		},
		"a held task that is to run again": func(c *cluster) (windlass.Submission, func()) {
			n := c.join("n", pulling("t"))
			c.Submit(needing("a"))
			held := c.dequeue(n, "t")
			waits := needing("a", "c")
			waits.Requeue = true
			c.Submit(waits)
			c.Advance(time.Second) // the node writes the history of the claim
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
				client := c.clientOn(between)
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
				if d := c.task("x"); !slices.Equal(d.Spec.Needs, []string{last.ID}) {
					t.Errorf("the first half: %+v", d)
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

func TestSubmit_OneSubmissionWhoseAnswerIsLostRunsATaskOnce(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run("", func(t *testing.T) {
			inVerified(t, func(t *testing.T, w *cluster) {
				w.takes = func(string) time.Duration { return 100 * time.Millisecond }
				w.joinFaulty("n", "")
				w.Advance(time.Second)
				call := "call 1"
				want := 1
				if before {
					w.submitted(w.client, "a", 1)
					w.Advance(time.Second)
					call, want = "call 3", 2
				}
				client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" ` + call)
				effects, errs := client.Enqueue(t.Context(), []windlass.Submission{{ID: "a-0", Rerun: true, Update: true, Requeue: true}})
				w.Advance(time.Minute)
				if n := w.startsOf("a-0"); n != want {
					t.Errorf("ended before: %t: %d starts, want %d; %v, %v", before, n, want, effects, errs)
				}
			})
		})
	}
}

func TestSubmit_AnUpdateThatComesLateDoesNotUndoALaterOne(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		ctx := t.Context()
		update := func(props string) windlass.Submission {
			return windlass.Submission{ID: "a-0", Props: json.RawMessage(props), Update: true}
		}
		w.submitted(w.client, "a", 1)
		client := w.clientBehind(`late 20s on commit below "/test/tasks/" call 3`)
		w.must(client.Submit(ctx, update(`1`)))
		w.Submit(update(`2`))
		w.Advance(time.Minute)
		if d := w.task("a-0"); string(d.Props) != `2` {
			t.Errorf("the last update said 2, and it is %s", d.Props)
		}
	})
}

func TestSubmit_ARefusalAfterAnAttemptOfUnknownOutcomeSaysThatItMayYetBeApplied(t *testing.T) {
	inVerified(t, func(t *testing.T, w *cluster) {
		w.submitted(w.client, "a", 1)
		client := w.clientBehind(`lose-reply 2s on commit below "/test/tasks/" call 1`)
		err := client.Submit(t.Context(), windlass.Submission{ID: "a-0", Spec: windlass.Spec{Priority: 1}})
		if !errors.Is(err, windlass.ErrExists) || !broker.MaybeApplied(err) {
			t.Errorf("%v", err)
		}
	})
}

func TestSubmit_HTMLWithinTheLimitsIsStoredAsData(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		html := json.RawMessage(`"` + strings.Repeat("<", 100<<10) + `"`)
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "plain", Spec: windlass.Spec{Type: "t"}, Props: html}); err != nil {
			t.Errorf("as a plain task: %.200v", err)
		}
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "a_t", Spec: windlass.Spec{Type: "t", Job: true}, Props: html}); err != nil {
			t.Errorf("as a job: %.200v", err)
		}
	})
}

func TestSubmit_HTMLWithinTheLimitsIsStoredForAfterwards(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.Submit(windlass.Submission{ID: "plain", Spec: windlass.Spec{Type: "t"}})
		c.detach("t", "plain")
		if err := c.client.Submit(t.Context(), windlass.Submission{ID: "plain", Spec: windlass.Spec{Type: "t"}, Requeue: true,
			Props: json.RawMessage(`"` + strings.Repeat("<", 100<<10) + `"`)}); err != nil {
			t.Errorf("%.200v", err)
		}
	})
}

func TestSubmit_HTMLWithinTheLimitsIsStoredAsAResult(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.job("a_t")
		d := c.detach("t", "a_t")
		if err := lease.New(c.client, nil).Complete(t.Context(), "a_t", d.Token, json.RawMessage(`"`+strings.Repeat("<", 100<<10)+`"`)); err != nil {
			t.Errorf("complete: %.200v", err)
		}
	})
}
