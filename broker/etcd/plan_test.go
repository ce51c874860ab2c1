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
		nested := len(members) > 1
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

// TestConditionsAloneAreNotDecidedFromOneMembersMemory: a member that lags may answer a
// transaction without operations.
func TestConditionsAloneAreNotDecidedFromOneMembersMemory(t *testing.T) {
	c := commit{txns: []broker.Txn{{If: []broker.Cond{broker.Exists("/a")}}}}
	if r := c.build([]int{0}); len(r.Success)+len(r.Failure) == 0 {
		t.Error("no operation")
	}
}
