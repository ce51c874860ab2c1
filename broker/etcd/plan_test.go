package etcd

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass/broker"
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
		if diff := cmp.Diff(c.want, waves(c.txns, all(c.txns))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestRequestsStayWithinTheLimits(t *testing.T) {
	var txns []broker.Txn
	for i := range 300 {
		ops := make([]broker.Op, 1+i%broker.TxnOpsMax)
		for n := range ops {
			ops[n] = broker.Put(fmt.Sprintf("/%d/%d", i, n), make([]byte, i*10))
		}
		txns = append(txns, then(ops...))
	}
	txns = append(txns, then(broker.Put("/large", make([]byte, broker.ValueBytesMax)), broker.Put("/larger", make([]byte, broker.ValueBytesMax))))
	next := 0
	for _, members := range pack(txns, all(txns)) {
		opsMax, bytes := 0, 0
		for _, i := range members {
			if i != next {
				t.Fatalf("transaction %d where %d is due", i, next)
			}
			next++
			ops, size := weigh(txns[i])
			opsMax, bytes = max(opsMax, ops), bytes+size
		}
		nested := len(members) > 1 // a single one travels as it is
		if nested && (len(members)+opsMax > requestOpsMax || bytes > requestBytesMax) || opsMax > requestOpsMax {
			t.Errorf("%d transactions of up to %d operations with %d bytes", len(members), opsMax, bytes)
		}
	}
	if next != len(txns) {
		t.Errorf("%d of %d transactions", next, len(txns))
	}
}

func TestWhatFreesSpaceTravelsApartFromWhatTakesIt(t *testing.T) {
	txns := []broker.Txn{
		then(broker.Put("/a", nil)), then(broker.DeleteTree("/b/")),
		then(broker.Delete("/c"), broker.Put("/d", nil)), then(broker.Read("/e")),
	}
	if diff := cmp.Diff([][]int{{0, 2}, {1, 3}}, pack(txns, all(txns))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestConditionsAloneAreNotDecidedFromOneMembersMemory: etcd takes a transaction
// without a single operation for one that may be answered by a member that lags.
func TestConditionsAloneAreNotDecidedFromOneMembersMemory(t *testing.T) {
	c := commit{txns: []broker.Txn{given(broker.Exists("/a"))}}
	if r := c.build([]int{0}); len(r.Success)+len(r.Failure) == 0 {
		t.Error("no operation")
	}
}
