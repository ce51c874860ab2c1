package memory_test

import (
	"strconv"
	"testing"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
)

// keysMany is the number of keys of the largest simulations.
const keysMany = 100_000

func manyKeys(b *testing.B) *memory.Broker {
	m := memory.New().Broker()
	var txns []broker.Txn
	for i := range keysMany {
		txns = append(txns, broker.Txn{Then: []broker.Op{broker.Put("/ft/"+strconv.Itoa(i)+"/owner", nil)}})
	}
	for _, r := range m.Commit(b.Context(), txns...) {
		if r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	return m
}

func BenchmarkPut(b *testing.B) {
	m := manyKeys(b)
	for b.Loop() {
		if _, err := broker.CommitOne(b.Context(), m, broker.Txn{Then: []broker.Op{broker.Put("/ft/7/owner", nil)}}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListOne(b *testing.B) { benchmarkList(b, "/ft/7/", 1) }

func BenchmarkListAll(b *testing.B) { benchmarkList(b, "/ft/", keysMany) }

func benchmarkList(b *testing.B, prefix string, want int) {
	m := manyKeys(b)
	for b.Loop() {
		if kvs, _, err := broker.Collect(b.Context(), m, prefix); err != nil || len(kvs) != want {
			b.Fatalf("%d keys, %v", len(kvs), err)
		}
	}
}
