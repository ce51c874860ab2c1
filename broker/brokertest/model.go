package brokertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// agreeWithModel runs random calls on a few keys, so that nearly every transaction shares
// one with an earlier one of its call.
func agreeWithModel(t *trial) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	m := model{prefix: t.prefix, keys: map[string]modelKey{}}
	for call := range 25 {
		var txns []broker.Txn
		var want []modelResult
		known := maps.Clone(m.keys) // conditions can only name revisions from before the call
		for i := range 1 + rng.IntN(40) {
			txn := randomTxn(rng, t.prefix, known)
			txns = append(txns, txn)
			want = append(want, m.apply(i, txn))
		}
		results := t.broker.Commit(t.ctx, txns...)
		for i, r := range results {
			if diff := want[i].compare(r, results); diff != "" {
				t.Fatalf("seed %d, call %d, transaction %d of %d: %s\n%+v", seed, call, i, len(txns), diff, txns[i])
			}
		}
		m.resolve(results)
		kvs, _ := t.list("")
		if diff := m.compare(kvs); diff != "" {
			t.Fatalf("seed %d, after call %d of %d transactions: %s", seed, call, len(txns), diff)
		}
	}
}

// modelKey is a key of the model. A revision n below zero is that of transaction -n-1 of the
// current call, which is not known yet.
type modelKey struct {
	value             string
	created, modified broker.Revision
}

type model struct {
	prefix string
	keys   map[string]modelKey
}

type modelResult struct {
	ok    bool
	reads []*modelKey
}

func (m *model) apply(i int, txn broker.Txn) modelResult {
	r := modelResult{ok: !slices.ContainsFunc(txn.If, func(c broker.Cond) bool { return !m.holds(c) })}
	branch := txn.Then
	if !r.ok {
		branch = txn.Else
	}
	for _, op := range branch {
		if op.Kind == broker.OpRead {
			k, there := m.keys[op.Key]
			r.reads = append(r.reads, map[bool]*modelKey{true: &k}[there])
		}
	}
	revision := broker.Revision(-i - 1)
	for _, op := range branch {
		switch op.Kind {
		case broker.OpPut:
			k, there := m.keys[op.Key]
			if !there {
				k.created = revision
			}
			k.value, k.modified = string(op.Value), revision
			m.keys[op.Key] = k
		case broker.OpDelete:
			delete(m.keys, op.Key)
		case broker.OpDeleteTree:
			maps.DeleteFunc(m.keys, func(k string, _ modelKey) bool { return strings.HasPrefix(k, op.Key) })
		}
	}
	return r
}

func (m *model) holds(c broker.Cond) bool {
	k, there := m.keys[c.Key]
	switch c.Kind {
	case broker.CondExists:
		return there
	case broker.CondAbsent:
		return !there
	case broker.CondCreated:
		return there && k.created == c.Revision
	default:
		return there && k.modified == c.Revision
	}
}

// resolve replaces revisions below zero by those that the call returned.
func (m *model) resolve(results []broker.Result) {
	for name, k := range m.keys {
		m.keys[name] = k.resolve(results)
	}
}

func (k modelKey) resolve(results []broker.Result) modelKey {
	for _, r := range []*broker.Revision{&k.created, &k.modified} {
		if *r < 0 {
			*r = results[-*r-1].Revision
		}
	}
	return k
}

func (want modelResult) compare(got broker.Result, results []broker.Result) string {
	switch {
	case got.Err != nil:
		return got.Err.Error()
	case got.OK != want.ok:
		return fmt.Sprintf("OK is %t, want %t", got.OK, want.ok)
	case len(got.Reads) != len(want.reads):
		return fmt.Sprintf("%d reads, want %d", len(got.Reads), len(want.reads))
	}
	for i, kv := range got.Reads {
		k := want.reads[i]
		if (kv == nil) != (k == nil) {
			return fmt.Sprintf("read %d is %+v, want %+v", i, kv, k)
		}
		if k != nil && k.resolve(results) != (modelKey{string(kv.Value), kv.Created, kv.Modified}) {
			return fmt.Sprintf("read %d is %+v, want %+v", i, kv, k.resolve(results))
		}
	}
	return ""
}

func (m *model) compare(kvs []broker.KV) string {
	if len(kvs) != len(m.keys) {
		return fmt.Sprintf("%d keys are listed, want %d", len(kvs), len(m.keys))
	}
	for _, kv := range kvs {
		if got := (modelKey{string(kv.Value), kv.Created, kv.Modified}); got != m.keys[kv.Key] {
			return fmt.Sprintf("key %s is listed as %+v, want %+v", kv.Key, got, m.keys[kv.Key])
		}
	}
	return ""
}

func randomTxn(rng *rand.Rand, prefix string, known map[string]modelKey) broker.Txn {
	names := []string{"a", "a/1", "a/2", "ab", "ab/1", "b"}
	key := func() string { return prefix + names[rng.IntN(len(names))] }
	var txn broker.Txn
	for range rng.IntN(3) {
		c := broker.Cond{Kind: broker.CondKind(1 + rng.IntN(4)), Key: key()}
		switch c.Kind {
		case broker.CondCreated:
			c.Revision = known[c.Key].created
		case broker.CondModified:
			c.Revision = known[c.Key].modified
		}
		txn.If = append(txn.If, c)
	}
	for range rng.IntN(4) {
		op := broker.Read(key())
		switch n := rng.IntN(12); {
		case n < 6:
			op = broker.Put(key(), fmt.Append(nil, rng.IntN(1000)))
		case n < 8:
			op = broker.Delete(key())
		case n < 10:
			op = broker.DeleteTree(prefix + []string{"a/", "ab/", "b/", ""}[rng.IntN(4)])
		}
		if !slices.ContainsFunc(txn.Then, func(w broker.Op) bool {
			return w.Kind != broker.OpRead && op.Kind != broker.OpRead && w.Overlaps(op)
		}) {
			txn.Then = append(txn.Then, op)
		}
	}
	for range rng.IntN(3) {
		txn.Else = append(txn.Else, broker.Read(key()))
	}
	return txn
}
