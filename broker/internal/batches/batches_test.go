package batches_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/internal/batches"
)

func all(txns []broker.Txn) []int {
	indexes := make([]int, len(txns))
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

func then(ops ...broker.Op) broker.Txn { return broker.Txn{Then: ops} }

func given(cond broker.Cond, ops ...broker.Op) broker.Txn {
	return broker.Txn{If: []broker.Cond{cond}, Then: ops}
}

func TestTransactionsWithAKeyInCommonWaitForEachOther(t *testing.T) {
	put, del, tree, read := func(k string) broker.Op { return broker.Put(k, nil) }, broker.Delete, broker.DeleteTree, broker.Read
	cases := []struct {
		name string
		txns []broker.Txn
		want [][]int
	}{
		{"nothing in common", []broker.Txn{then(put("/a")), then(put("/b")), then(del("/c"))}, [][]int{{0, 1, 2}}},
		{"looking at the same key", []broker.Txn{then(read("/a")), given(broker.Exists("/a"), put("/b")), given(broker.Exists("/a"), put("/c"))}, [][]int{{0, 1, 2}}},
		{"writing the same key", []broker.Txn{then(put("/a")), then(put("/a")), then(del("/a"))}, [][]int{{0}, {1}, {2}}},
		{"reading what was written", []broker.Txn{then(put("/a")), then(read("/a")), then(read("/a")), then(put("/b"))}, [][]int{{0, 3}, {1, 2}}},
		{"writing what was read", []broker.Txn{then(read("/a")), then(put("/a"))}, [][]int{{0}, {1}}},
		{"a condition on what was written", []broker.Txn{then(put("/a")), given(broker.Absent("/a"), put("/b"))}, [][]int{{0}, {1}}},
		{"reading in the else branch", []broker.Txn{then(put("/a")), {If: []broker.Cond{broker.Exists("/c")}, Else: []broker.Op{read("/a")}}}, [][]int{{0}, {1}}},
		{"a subtree after its key", []broker.Txn{then(put("/a/b/c")), then(tree("/a/")), then(put("/a"))}, [][]int{{0, 2}, {1}}},
		{"a key after its subtree", []broker.Txn{then(tree("/a/")), then(put("/a/b/c")), then(read("/a/d"))}, [][]int{{0}, {1, 2}}},
		{"a subtree's own node and siblings", []broker.Txn{then(tree("/a/")), then(put("/a")), then(put("/ab/c"))}, [][]int{{0, 1, 2}}},
		{"a subtree in a subtree", []broker.Txn{then(tree("/a/b/")), then(tree("/a/")), then(tree("/a/b/"))}, [][]int{{0}, {1}, {2}}},
		{"two subtrees", []broker.Txn{then(tree("/a/")), then(tree("/b/"))}, [][]int{{0, 1}}},
		{"a chain", []broker.Txn{then(put("/a")), then(put("/a"), put("/b")), then(put("/b")), then(put("/c"))}, [][]int{{0, 3}, {1}, {2}}},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.want, batches.Divide(c.txns, all(c.txns))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}
