package brokertest

import (
	"slices"
	"strconv"

	"github.com/windlass-go/windlass/broker"
)

var commitRules = []Rule{
	{Number: "B11", Name: "conditions_decide_the_branch", test: conditions,
		Sentence: "Then is applied when every condition holds, Else is read when any does not; no condition always holds."},
	{Number: "B12", Name: "reads_are_in_order", test: readsInOrder,
		Sentence: "The reads of the branch taken are returned in order, nil for a key that does not exist."},
	{Number: "B13", Name: "reads_precede_writes", test: readsPrecedeWrites,
		Sentence: "A read sees the state before the writes of its own transaction."},
	{Number: "B14", Name: "failed_condition_changes_nothing", test: failedCondition,
		Sentence: "A transaction whose conditions fail changes nothing and assigns no revision."},
	{Number: "B15", Name: "transaction_is_whole", test: wholeTransaction,
		Sentence: "All writes of a transaction are applied together at the revision that its result tells."},
	{Number: "B16", Name: "deleting_nothing_is_no_error", test: deleteNothing,
		Sentence: "Deleting a key or a subtree that is not there succeeds and changes nothing."},
	{Number: "B17", Name: "committing_nothing_returns_nothing", test: commitNothing,
		Sentence: "A call without transactions returns no results, and one without operations only evaluates."},
}

func conditions(t *trial) {
	created := t.put("a", "1")
	modified := t.put("a", "2")
	a, b := t.prefix+"a", t.prefix+"b"
	tests := []struct {
		name string
		cond []broker.Cond
		want bool
	}{
		{"none", nil, true},
		{"exists", []broker.Cond{broker.Exists(a)}, true},
		{"exists, missing", []broker.Cond{broker.Exists(b)}, false},
		{"exists, below a key", []broker.Cond{broker.Exists(a + "/x")}, false},
		{"exists, sibling that begins alike", []broker.Cond{broker.Exists(a + "b")}, false},
		{"absent", []broker.Cond{broker.Absent(b)}, true},
		{"absent, there", []broker.Cond{broker.Absent(a)}, false},
		{"created", []broker.Cond{broker.Created(a, created)}, true},
		{"created, at the revision of a change", []broker.Cond{broker.Created(a, modified)}, false},
		{"created, missing", []broker.Cond{broker.Created(b, created)}, false},
		{"created at zero, missing", []broker.Cond{broker.Created(b, 0)}, false},
		{"modified", []broker.Cond{broker.Modified(a, modified)}, true},
		{"modified, since", []broker.Cond{broker.Modified(a, created)}, false},
		{"modified, missing", []broker.Cond{broker.Modified(b, modified)}, false},
		{"modified at zero, missing", []broker.Cond{broker.Modified(b, 0)}, false},
		{"all four", []broker.Cond{broker.Exists(a), broker.Absent(b), broker.Created(a, created), broker.Modified(a, modified)}, true},
		{"first of two fails", []broker.Cond{broker.Absent(a), broker.Absent(b)}, false},
		{"last of two fails", []broker.Cond{broker.Exists(a), broker.Exists(b)}, false},
	}
	for i, test := range tests {
		mark := "marks/" + strconv.Itoa(i)
		r := t.commit(broker.Txn{If: test.cond, Then: []broker.Op{broker.Put(t.prefix+mark, nil)}, Else: []broker.Op{broker.Read(a)}})
		if r.OK != test.want {
			t.Errorf("%s: OK is %t, want %t", test.name, r.OK, test.want)
		}
		if reads := len(r.Reads); (reads == 1) == test.want {
			t.Errorf("%s: %d reads of the else branch, but OK should be %t", test.name, reads, test.want)
		}
		if test.want {
			t.get(mark)
		} else {
			t.wantAbsent(mark)
		}
	}
}

func readsInOrder(t *trial) {
	rev := t.put("a", "1")
	t.put("b", "2")
	names := []string{"b", "missing", "a", "b", "a/missing"}
	want := []string{"2", "", "1", "2", ""}
	var reads []broker.Op
	for _, name := range names {
		reads = append(reads, broker.Read(t.prefix+name))
	}
	check := func(r broker.Result) {
		t.Helper()
		if len(r.Reads) != len(want) {
			t.Fatalf("%d reads were returned, want %d", len(r.Reads), len(want))
		}
		for i, kv := range r.Reads {
			switch {
			case kv == nil && want[i] == "":
			case kv == nil || want[i] == "" || string(kv.Value) != want[i] || kv.Key != t.prefix+names[i]:
				t.Errorf("read %d of %s returned %+v, want value %q", i, names[i], kv, want[i])
			case r.Revision < kv.Modified:
				t.Errorf("the result has revision %d, but read a change of revision %d", r.Revision, kv.Modified)
			}
		}
	}
	check(t.commit(broker.Txn{Then: reads}))
	check(t.commit(broker.Txn{If: []broker.Cond{broker.Exists(t.prefix + "missing")}, Else: reads}))
	mixed := slices.Insert(slices.Clone(reads), 2, broker.Put(t.prefix+"c", nil))
	check(t.commit(broker.Txn{If: []broker.Cond{broker.Created(t.prefix+"a", rev)}, Then: mixed}))
}

func readsPrecedeWrites(t *trial) {
	was := t.put("a", "old")
	t.put("tree/x", "old")
	r := t.commit(broker.Txn{Then: []broker.Op{
		broker.Put(t.prefix+"a", []byte("new")), broker.Read(t.prefix + "a"),
		broker.Put(t.prefix+"b", []byte("new")), broker.Read(t.prefix + "b"),
		broker.DeleteTree(t.prefix + "tree/"), broker.Read(t.prefix + "tree/x"),
	}})
	if len(r.Reads) != 3 || r.Reads[0] == nil || r.Reads[1] != nil || r.Reads[2] == nil {
		t.Fatalf("the reads are %+v, want a key, nil, a key", r.Reads)
	}
	if kv := r.Reads[0]; string(kv.Value) != "old" || kv.Modified != was {
		t.Errorf("a read of a key put by the same transaction returned %+v, want the old one", kv)
	}
	if got := t.get("a"); string(got.Value) != "new" {
		t.Errorf("the value is %q, want new", got.Value)
	}
	t.wantAbsent("tree/x")
}

func failedCondition(t *trial) {
	t.put("a", "1")
	t.put("tree/x", "1")
	before, _ := t.list("")
	r := t.commit(broker.Txn{
		If: []broker.Cond{broker.Exists(t.prefix + "a"), broker.Absent(t.prefix + "a")},
		Then: []broker.Op{broker.Put(t.prefix+"a", []byte("2")), broker.Put(t.prefix+"b", nil),
			broker.DeleteTree(t.prefix + "tree/")},
	})
	if r.OK || len(r.Reads) != 0 {
		t.Errorf("the result is %+v, want neither OK nor reads", r)
	}
	after, _ := t.list("")
	if len(after) != len(before) {
		t.Fatalf("%d keys after the failed transaction, %d before", len(after), len(before))
	}
	for i, kv := range after {
		wantKV(t, kv, before[i])
	}
	last := before[len(before)-1].Modified
	if r.Revision < last {
		t.Errorf("the result has revision %d, want at least %d, which came before", r.Revision, last)
	}
}

func wholeTransaction(t *trial) {
	old := t.put("old", "1")
	t.put("gone", "1")
	t.put("tree/x", "1")
	rev := t.write(broker.Put(t.prefix+"old", []byte("2")), broker.Put(t.prefix+"new", []byte("3")),
		broker.Delete(t.prefix+"gone"), broker.DeleteTree(t.prefix+"tree/"), broker.Put(t.prefix+"tree", nil))
	if rev <= old {
		t.Errorf("revision %d does not come after %d", rev, old)
	}
	if kv := t.get("old"); kv.Created != old || kv.Modified != rev {
		t.Errorf("the key put again is %+v, want created at %d and modified at %d", kv, old, rev)
	}
	for _, name := range []string{"new", "tree"} {
		if kv := t.get(name); kv.Created != rev || kv.Modified != rev {
			t.Errorf("the new key is %+v, want both revisions %d", kv, rev)
		}
	}
	t.wantAbsent("gone", "tree/x")
}

func deleteNothing(t *trial) {
	t.put("a", "1")
	r := t.commit(broker.Txn{Then: []broker.Op{broker.Delete(t.prefix + "b"), broker.DeleteTree(t.prefix + "a/")}})
	if !r.OK {
		t.Errorf("the result is %+v, want OK", r)
	}
	t.wantNames("", "a")
}

func commitNothing(t *trial) {
	if results := t.broker.Commit(t.ctx); len(results) != 0 {
		t.Errorf("a call without transactions returned %d results", len(results))
	}
	t.put("a", "1")
	if r := t.commit(broker.Txn{}); !r.OK {
		t.Errorf("a transaction of nothing has result %+v, want OK", r)
	}
	if r := t.commit(broker.Txn{If: []broker.Cond{broker.Absent(t.prefix + "a")}}); r.OK {
		t.Errorf("a transaction of only a condition that fails has result %+v, want not OK", r)
	}
}
