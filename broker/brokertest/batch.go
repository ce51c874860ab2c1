package brokertest

import (
	"bytes"
	"fmt"

	"github.com/windlass-go/windlass/broker"
)

var batchRules = []Rule{
	{Number: "B18", Name: "each_transaction_has_its_result", test: eachResult,
		Sentence: "A call with many transactions returns a result for each, in order; one that fails, or is refused, harms no other."},
	{Number: "B19", Name: "first_claim_of_a_call_wins", test: firstClaimWins,
		Sentence: "Of several claims of one key in one call the first wins."},
	{Number: "B20", Name: "transactions_see_earlier_ones", test: seeEarlier,
		Sentence: "A transaction sees what the earlier ones of its call did, and nothing of the later ones."},
	{Number: "B21", Name: "calls_agree_with_a_model", test: agreeWithModel,
		Sentence: "Random calls do what a map does that applies their transactions one after the other."},
	{Number: "B22", Name: "large_calls_are_divided", test: largeCalls,
		Sentence: "A call may write or read more than one message of the store holds."},
}

func eachResult(t *trial) {
	t.put("there", "x")
	over := make([]byte, broker.ValueBytesMax+1)
	var txns []broker.Txn
	name := func(i int) string { return fmt.Sprintf("each/%03d", i) }
	for i := range 500 {
		put := broker.Put(t.prefix+name(i), []byte{byte(i)})
		switch i % 6 {
		case 0:
			txns = append(txns, broker.Txn{Then: []broker.Op{put, broker.Read(t.prefix + "there")}})
		case 1:
			txns = append(txns, broker.Txn{If: []broker.Cond{broker.Absent(t.prefix + "there")}, Then: []broker.Op{put},
				Else: []broker.Op{broker.Read(t.prefix + "there"), broker.Read(t.prefix + "missing")}})
		case 2:
			txns = append(txns, broker.Txn{Then: []broker.Op{put, broker.Put(t.prefix+"bad//key", nil)}})
		case 3:
			txns = append(txns, broker.Txn{Then: []broker.Op{put, broker.Put(t.prefix+"over", over)}})
		case 4:
			txns = append(txns, broker.Txn{Then: []broker.Op{put, put}})
		case 5:
			txns = append(txns, when(broker.Exists(t.prefix+"there"), put))
		}
	}
	results := t.broker.Commit(t.ctx, txns...)
	if len(results) != len(txns) {
		t.Fatalf("%d results for %d transactions", len(results), len(txns))
	}
	var want []string
	for i, r := range results {
		what := fmt.Sprintf("transaction %d", i)
		switch i % 6 {
		case 0, 5:
			want = append(want, name(i))
			if r.Err != nil || !r.OK || len(r.Reads) != (5-i%6)/5 {
				t.Errorf("%s: %+v, want OK", what, r)
			}
		case 1:
			if r.Err != nil || r.OK || len(r.Reads) != 2 || r.Reads[0] == nil || r.Reads[1] != nil {
				t.Errorf("%s: %+v, want the reads of the else branch", what, r)
			}
		case 2, 4:
			wantRefused(t, what, r, broker.ErrInvalid)
		case 3:
			wantRefused(t, what, r, broker.ErrTooLarge)
		}
	}
	t.wantNames("each/", want...)
	for i, r := range results {
		if r.OK && t.get(name(i)).Created != r.Revision {
			t.Errorf("transaction %d: its key was not created at the revision %d of its result", i, r.Revision)
		}
	}
}

func wantRefused(t *trial, what string, r broker.Result, kind error) {
	t.Helper()
	t.wantKind(what, r.Err, kind)
	if r.OK || r.Revision != 0 || r.Reads != nil {
		t.Errorf("%s: the result has an error, but also values: %+v", what, r)
	}
	if broker.MaybeApplied(r.Err) {
		t.Errorf("%s: refused, but with an unknown outcome: %v", what, r.Err)
	}
}

func firstClaimWins(t *trial) {
	var txns []broker.Txn
	for i := range 30 {
		k := fmt.Sprintf("%sclaim/%d", t.prefix, i/3)
		txns = append(txns, broker.Txn{If: []broker.Cond{broker.Absent(k)},
			Then: []broker.Op{broker.Put(k, []byte{byte(i)})}, Else: []broker.Op{broker.Read(k)}})
	}
	for i, r := range t.broker.Commit(t.ctx, txns...) {
		first := i%3 == 0
		if r.Err != nil || r.OK != first {
			t.Errorf("claim %d: %+v, want OK to be %t", i, r, first)
			continue
		}
		if !first && (r.Reads[0] == nil || r.Reads[0].Value[0] != byte(i/3*3)) {
			t.Errorf("claim %d lost and read %+v, want the winner's", i, r.Reads[0])
		}
	}
	for i := range 10 {
		if kv := t.get(fmt.Sprintf("claim/%d", i)); kv.Created != kv.Modified || kv.Value[0] != byte(3*i) {
			t.Errorf("the claim is %+v, want the first one's, unchanged", kv)
		}
	}
}

func seeEarlier(t *trial) {
	k, below, other := t.prefix+"k", t.prefix+"k/below", t.prefix+"other"
	old := t.put("k", "old")
	t.put("k/below", "old")
	put := func(key, value string) broker.Op { return broker.Put(key, []byte(value)) }
	steps := []struct {
		name string
		txn  broker.Txn
		ok   bool
		read string // the value read, if there is a read
	}{
		{"not yet", broker.Txn{If: []broker.Cond{broker.Exists(other)}, Else: []broker.Op{broker.Read(k)}}, false, "old"},
		{"put", broker.Txn{Then: []broker.Op{put(k, "new")}}, true, ""},
		{"modified since", when(broker.Modified(k, old), put(other, "x")), false, ""},
		{"same incarnation", when(broker.Created(k, old), broker.Read(k)), true, "new"},
		{"delete the subtree", broker.Txn{Then: []broker.Op{broker.DeleteTree(k + "/")}}, true, ""},
		{"gone from below", when(broker.Exists(below), put(other, "x")), false, ""},
		{"put below again", when(broker.Absent(below), put(below, "again")), true, ""},
		{"delete", broker.Txn{Then: []broker.Op{broker.Delete(k)}}, true, ""},
		{"gone", when(broker.Absent(k), put(k, "anew")), true, ""},
		{"another incarnation", when(broker.Created(k, old), put(other, "x")), false, ""},
		{"read anew", broker.Txn{Then: []broker.Op{broker.Read(k)}}, true, "anew"},
		{"read again below", broker.Txn{Then: []broker.Op{broker.Read(below)}}, true, "again"},
		{"everything", broker.Txn{Then: []broker.Op{broker.DeleteTree(t.prefix)}}, true, ""},
		{"nothing left", broker.Txn{If: []broker.Cond{broker.Absent(k), broker.Absent(below)}, Then: []broker.Op{put(other, "last")}}, true, ""},
	}
	var txns []broker.Txn
	for _, s := range steps {
		txns = append(txns, s.txn)
	}
	for i, r := range t.broker.Commit(t.ctx, txns...) {
		s := steps[i]
		if r.Err != nil || r.OK != s.ok {
			t.Errorf("%s: %+v, want OK to be %t", s.name, r, s.ok)
		}
		if s.read != "" && (len(r.Reads) != 1 || r.Reads[0] == nil || string(r.Reads[0].Value) != s.read) {
			t.Errorf("%s: the read is %+v, want %q", s.name, r.Reads, s.read)
		}
	}
	t.wantNames("", "other")
}

func largeCalls(t *trial) {
	const n, size = 8, 500 << 10
	var puts, reads []broker.Txn
	for i := range n {
		k := fmt.Sprintf("%slarge/%d", t.prefix, i)
		puts = append(puts, when(broker.Absent(k), broker.Put(k, bytes.Repeat([]byte{byte(i)}, size))))
		reads = append(reads, broker.Txn{Then: []broker.Op{broker.Read(k)}})
	}
	for i, r := range t.broker.Commit(t.ctx, puts...) {
		if r.Err != nil || !r.OK {
			t.Errorf("put %d: OK is %t, error %v", i, r.OK, r.Err)
		}
	}
	for i, r := range t.broker.Commit(t.ctx, reads...) {
		if r.Err != nil || len(r.Reads) != 1 || r.Reads[0] == nil {
			t.Errorf("read %d returned %d keys, error %v", i, len(r.Reads), r.Err)
		} else if !bytes.Equal(r.Reads[0].Value, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Errorf("read %d returned another value", i)
		}
	}
}
