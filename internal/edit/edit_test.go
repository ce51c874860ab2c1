package edit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errExists   = errors.New("exists")
	errSame     = errors.New("is there")
	errFinished = errors.New("finished")
)

// words is a spec: its needs, and a word by which it is told from others.
type words struct {
	Needs []string `json:"needs,omitempty"`
	Word  string   `json:"word"`
}

// Encode implements Spec.
func (w words) Encode(f Facts) ([]byte, error) {
	w.Needs = f.Needs
	return json.Marshal(w)
}

// EncodeJob implements Spec.
func (w words) EncodeJob(Facts, string, string) ([]byte, error) { return json.Marshal(w) }

var rules = Rules{
	Facts: func(spec []byte) (Facts, error) {
		var w words
		err := json.Unmarshal(spec, &w)
		return Facts{Needs: w.Needs, Digest: w.Word}, err
	},
	Digest: func(spec, _ []byte) string {
		var w words
		_ = json.Unmarshal(spec, &w)
		return w.Word
	},
	Exists: func(_ string, same bool) error {
		if same {
			return errSame
		}
		return errExists
	},
	Finished: func(string, statemachine.State, bool) error { return errFinished },
	Already:  func(err error) bool { return errors.Is(err, errSame) },
}

// fixture is a store with a namespace.
type fixture struct {
	*testing.T
	broker broker.Broker
	space  keys.Space
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() { store.Close() })
	space, err := keys.New("/e")
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, store.Broker(), space}
}

func (f *fixture) put(key, value string) {
	f.Helper()
	if _, err := broker.CommitOne(f.Context(), f.broker, broker.Txn{Then: []broker.Op{broker.Put(key, []byte(value))}}); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) batch(tasks ...*Task) *Batch {
	for _, t := range tasks {
		if t.Spec == nil {
			t.Spec, t.Digest = words{Word: "new"}, "new"
		}
	}
	b := New(f.broker, f.space, &rules, "", tasks)
	b.Check(f.Context(), func(context.Context) error { return nil })
	return b
}

// What a submission does depends on what is stored under its ID and on what it may replace.
func TestBatch_M11_WhatASubmissionDoes(t *testing.T) {
	const live, other, done = `{"word":"new"}`, `{"word":"old"}`, `{"state":"completed","digest":"new"}`
	plain, update, requeue, rerun := Task{}, Task{Update: true}, Task{Requeue: true}, Task{Rerun: true}
	for _, c := range []struct {
		how                              Task
		task, props, state, owner, again string
		effect                           Effect
		err                              error
	}{
		{plain, "", "", "", "", "", Created, nil},
		{plain, "", "", `{"state":"sleeping"}`, "", "", Created, nil}, // left by one that was deleted
		{plain, live, "", "", "", "", "", errSame},
		{plain, other, "", "", "", "", "", errExists},
		{plain, "not a spec", "", "", "", "", "", errExists},
		{plain, "", "1", "", "", "", "", errExists}, // in the older form, of which nothing else is stored
		{plain, "", "", done, "", "", "", errFinished},
		{update, "", "", done, "", "", "", errFinished},
		{rerun, "", "", done, "", "", Rerun, nil},
		{rerun, live, "", "", "", "", "", errSame},
		{update, other, "", "", "", "", Updated, nil},
		{update, other, "", "", "n", "", Updated, nil},
		{update, live, "", "", "", "", Unchanged, nil},
		{update, live, "", "", "", `{"created":1}`, Updated, nil}, // it would run again as something else
		{requeue, live, "", "", "n", "", Requeued, nil},
		{requeue, live, "", "", "", "", "", errSame},
		{Task{Update: true, Requeue: true}, live, "", "", "n", "", Requeued, nil},
		{Task{Ended: 1}, "", "", "", "", "", "", ErrNotFound},
		{Task{Ended: 1}, live, "", "", "", "", "", errSame},
		{Task{Base: 1, Update: true}, "", "", "", "", "", "", ErrNotFound},
		{Task{Base: 1, Update: true}, "", "", done, "", "", "", errFinished},
		{Task{Base: 1000, Update: true}, live, "", "", "", "", "", ErrChanged},
	} {
		t.Run(fmt.Sprintf("%+v of %s%s%s%s%s", c.how.flags(), c.task, c.props, c.state, c.owner, c.again), func(t *testing.T) {
			f := newFixture(t)
			for key, value := range map[string]string{
				f.space.Task("a"): c.task, f.space.Props("a"): c.props, f.space.State("a"): c.state, f.space.Owner("a"): c.owner, f.space.Requeue("a"): c.again,
			} {
				if value != "" {
					f.put(key, value)
				}
			}
			would, does := c.how, c.how
			would.ID, does.ID = "a", "a"
			if err := f.batch(&would).Preview(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.batch(&does).Store(t.Context())
			for _, got := range []Task{would, does} {
				if got.Effect != c.effect || !errors.Is(got.Err, c.err) {
					t.Errorf("%q, %v, want %q, %v", got.Effect, got.Err, c.effect, c.err)
				}
			}
		})
	}
}

// flags returns what a task may replace.
func (t *Task) flags() string {
	return fmt.Sprintf("update=%t requeue=%t rerun=%t ended=%d base=%d", t.Update, t.Requeue, t.Rerun, t.Ended, t.Base)
}

func TestBatch_Z12_ACycleIsRefusedWithAllThatIsInIt(t *testing.T) {
	f := newFixture(t)
	f.put(f.space.Task("stored"), `{"needs":["a"]}`)
	needs := func(id string, needs ...string) *Task {
		return &Task{ID: id, Facts: Facts{Needs: needs}, Spec: words{Word: id}}
	}
	a, b, beside := needs("a", "b"), needs("b", "stored"), needs("c", "a")
	f.batch(a, b, beside).Store(t.Context())
	if a.Err == nil || b.Err == nil || a.Effect != "" || b.Effect != "" {
		t.Errorf("a → b → stored → a is submitted: %v, %v", a.Err, b.Err)
	}
	if !errors.Is(beside.Err, ErrUnmetNeed) {
		t.Errorf("the task that needs one of them: %v, want %v", beside.Err, ErrUnmetNeed)
	}
}

func TestDelete_OfWhatIsNotLiveSaysWhatIsLeftOfIt(t *testing.T) {
	f := newFixture(t)
	f.put(f.space.Task("live"), `{}`)
	f.put(f.space.State("ended"), `{"state":"killed"}`)
	errs := Delete(t.Context(), f.broker, f.space, "", []string{"live", "ended", "", "live"}, nil)
	if errs[0] != nil || errs[2] == nil {
		t.Errorf("deleted a live task: %v; one without an ID: %v", errs[0], errs[2])
	}
	if want := `task "ended": not found among the live tasks: it is killed, and to be forgotten by pruning`; errs[1] == nil || errs[1].Error() != want {
		t.Errorf("%v, want %s", errs[1], want)
	}
}
