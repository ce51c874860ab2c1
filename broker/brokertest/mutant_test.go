package brokertest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/brokertest"
	"github.com/windlass-go/windlass/broker/memory"
)

// mutantEnv names the mutant for a test process to check.
const mutantEnv = "WINDLASS_BROKERTEST_MUTANT"

// mutant is a broker with a mistake in one method.
type mutant struct {
	*memory.Broker
	commit    func(b *memory.Broker, ctx context.Context, txns []broker.Txn) []broker.Result
	get       func() (broker.KV, error)
	list      func(p broker.Page) broker.Page
	batch     func(b broker.Batch) []broker.Batch
	keepAlive func(b *memory.Broker, ctx context.Context, id broker.SessionID) (time.Duration, error)
}

func (m *mutant) Get(ctx context.Context, key string) (broker.KV, error) {
	if m.get == nil {
		return m.Broker.Get(ctx, key)
	}
	return m.get()
}

func (m *mutant) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if m.commit == nil {
		return m.Broker.Commit(ctx, txns...)
	}
	return m.commit(m.Broker, ctx, txns)
}

func (m *mutant) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	if m.keepAlive == nil {
		return m.Broker.KeepAlive(ctx, id)
	}
	return m.keepAlive(m.Broker, ctx, id)
}

func (m *mutant) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		for page, err := range m.Broker.List(ctx, prefix) {
			if m.list != nil && err == nil {
				page = m.list(page)
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

func (m *mutant) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		for batch, err := range m.Broker.Watch(ctx, prefix, from) {
			batches := []broker.Batch{batch}
			if m.batch != nil && err == nil {
				batches = m.batch(batch)
			}
			for _, b := range batches {
				if !yield(b, err) {
					return
				}
			}
		}
	}
}

// rewrite returns a mutant that changes transactions.
func rewrite(change func(*broker.Txn)) mutant {
	return mutant{commit: func(b *memory.Broker, ctx context.Context, txns []broker.Txn) []broker.Result {
		txns = slices.Clone(txns)
		for i := range txns {
			txns[i].If, txns[i].Then = slices.Clone(txns[i].If), slices.Clone(txns[i].Then)
			change(&txns[i])
		}
		return b.Commit(ctx, txns...)
	}}
}

// createdAs returns a mutant that evaluates a condition on a key's creation as another
// one.
func createdAs(kind broker.CondKind) mutant {
	return rewrite(func(txn *broker.Txn) {
		for i, c := range txn.If {
			if c.Kind == broker.CondCreated {
				txn.If[i].Kind = kind
			}
		}
	})
}

// mutants are mistakes that an adapter could make, each with the rule that must find it.
var mutants = []struct {
	name, rule string
	mutant     mutant
}{
	{"created is compared as modified", "B29", createdAs(broker.CondModified)},
	{"the fence only checks that the key exists", "B29", createdAs(broker.CondExists)},
	{"conditions are ignored", "B27", rewrite(func(txn *broker.Txn) { txn.If = nil })},
	{"a subtree delete deletes the node", "B30", rewrite(func(txn *broker.Txn) {
		for _, op := range txn.Then {
			if op.Kind == broker.OpDeleteTree && broker.CheckPrefix(op.Key) == nil {
				txn.Then = append(txn.Then, broker.Delete(strings.TrimSuffix(op.Key, "/")))
			}
		}
	})},
	{"keys have no session", "B48", rewrite(func(txn *broker.Txn) {
		for i := range txn.Then {
			txn.Then[i].Session = 0
		}
	})},
	{"transactions are applied last first", "B19", mutant{commit: func(b *memory.Broker, ctx context.Context, txns []broker.Txn) []broker.Result {
		txns = slices.Clone(txns)
		slices.Reverse(txns)
		results := b.Commit(ctx, txns...)
		slices.Reverse(results)
		return results
	}}},
	{"one error fails the whole call", "B18", mutant{commit: func(b *memory.Broker, ctx context.Context, txns []broker.Txn) []broker.Result {
		for _, txn := range txns {
			if err := txn.Validate(); err != nil {
				return slices.Repeat([]broker.Result{{Err: err}}, len(txns))
			}
		}
		return b.Commit(ctx, txns...)
	}}},
	{"errors are of another type", "B01", mutant{get: func() (broker.KV, error) { return broker.KV{}, errors.New("not found") }}},
	{"a page is not sorted", "B05", mutant{list: func(p broker.Page) broker.Page { slices.Reverse(p.KVs); return p }}},
	{"each page has its own revision", "B08", mutant{list: func(p broker.Page) broker.Page {
		pages++
		p.Revision += pages
		return p
	}}},
	{"a batch is delivered twice", "B32", mutant{batch: func(b broker.Batch) []broker.Batch { return []broker.Batch{b, b} }}},
	{"a batch is divided inside a transaction", "B36", mutant{batch: func(b broker.Batch) []broker.Batch {
		half := len(b.Events) / 2
		return []broker.Batch{{Events: b.Events[:half], Revision: b.Revision}, {Events: b.Events[half:], Revision: b.Revision}}
	}}},
	{"the last event of a batch is lost", "B34", mutant{batch: func(b broker.Batch) []broker.Batch {
		b.Events = b.Events[:max(len(b.Events)-1, 0)]
		return []broker.Batch{b}
	}}},
	{"an overwritten long value is left out, and the batch ends before", "B58", mutant{batch: func(b broker.Batch) []broker.Batch {
		b.Events = slices.DeleteFunc(slices.Clone(b.Events), func(e broker.Event) bool { return len(e.KV.Value) > broker.WatchedValueBytes })
		return []broker.Batch{b}
	}}},
	{"there is no progress", "B39", mutant{batch: func(b broker.Batch) []broker.Batch {
		if len(b.Events) == 0 {
			return nil
		}
		b.Revision = b.Events[len(b.Events)-1].KV.Modified
		return []broker.Batch{b}
	}}},
	{"renewal does nothing", "B46", mutant{keepAlive: func(*memory.Broker, context.Context, broker.SessionID) (time.Duration, error) {
		return time.Second, nil
	}}},
	{"a renewal promises too much", "B47", mutant{keepAlive: func(b *memory.Broker, ctx context.Context, id broker.SessionID) (time.Duration, error) {
		ttl, err := b.KeepAlive(ctx, id)
		return ttl + time.Nanosecond, err
	}}},
}

var pages broker.Revision // that a mutant has returned

// The test runs itself again in a process for each mistake, in which the rule must fail
// and print its sentence.
func TestRules_FindTheMistakesOfMutants(t *testing.T) {
	if name := os.Getenv(mutantEnv); name != "" {
		checkMutant(t, name)
		return
	}
	sentences := map[string]string{}
	for _, r := range brokertest.Rules() {
		sentences[r.Number] = r.Sentence
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRules_FindTheMistakesOfMutants$/^"+m.rule+"_")
			cmd.Env = append(os.Environ(), mutantEnv+"="+m.name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), m.rule+": "+sentences[m.rule]) {
				t.Errorf("%s did not find the mistake: %v\n%s", m.rule, err, out)
			}
		})
	}
}

func checkMutant(t *testing.T, name string) {
	brokertest.Run(t, func(*testing.T) broker.Broker {
		for _, m := range mutants {
			if m.name == name {
				m.mutant.Broker = memory.New().Broker()
				return &m.mutant
			}
		}
		t.Fatalf("there is no mutant %q", name)
		return nil
	}, brokertest.Options{Around: synctest.Test})
}
