package brokertest

import (
	"strconv"

	"github.com/windlass-go/windlass/broker"
)

var historyRules = []Rule{
	{Number: "B42", Name: "compacted_watch_ends", test: watchCompacted, compact: true,
		Sentence: "A watch from a revision whose history was compacted ends with ErrCompacted; one from later on does not."},
	{Number: "B43", Name: "compacted_listing_is_repeated", test: listCompacted, compact: true,
		Sentence: "A listing whose snapshot is compacted while it is paged is completed, or ends with ErrCompacted; listing again will do."},
	{Number: "B44", Name: "compaction_spares_keys", test: compactionSparesKeys, compact: true,
		Sentence: "Compaction changes no key, and none of its revisions."},
}

func (t *trial) compactTo(rev broker.Revision) {
	t.Helper()
	if err := t.opts.Compact(t.ctx, rev); err != nil {
		t.Fatalf("compacting up to %d: %v", rev, err)
	}
}

func watchCompacted(t *trial) {
	first := t.put("a/x", "0")
	var last broker.Revision
	for i := range 10 {
		last = t.put("a/x", strconv.Itoa(i))
	}
	t.compactTo(last)
	t.put("a/x", "end")
	t.wantKind("the watch from compacted history", t.watchError(t.ctx, t.prefix+"a/", first, func() {}), broker.ErrCompacted)
	events := t.followN("a/", last+1, 1)
	if len(events) > 0 && string(events[0].KV.Value) != "end" {
		t.Errorf("the watch after the compacted revision delivered %s, want the last put", describe(events[0]))
	}
}

func listCompacted(t *trial) {
	const n = 5_200
	t.fill("many/", n)
	pages, keys := 0, 0
	for page, err := range t.broker.List(t.ctx, t.prefix+"many/") {
		if err != nil {
			t.wantKind("the listing", err, broker.ErrCompacted)
			keys = n
			continue // to see whether anything follows
		}
		keys += len(page.KVs)
		if pages++; pages == 1 {
			t.compactTo(t.put("many/0", "changed"))
		}
	}
	if keys != n {
		t.Errorf("the listing ended without an error after %d of %d keys", keys, n)
	}
	if kvs, _ := t.list("many/"); len(kvs) != n {
		t.Errorf("listing again has %d keys, want %d", len(kvs), n)
	}
}

func compactionSparesKeys(t *trial) {
	created := t.put("a", "1")
	modified := t.put("a", "2")
	t.put("b", "1")
	t.write(broker.Delete(t.prefix + "b"))
	t.compactTo(t.put("c", ""))
	wantKV(t, t.get("a"), broker.KV{Key: t.prefix + "a", Value: []byte("2"), Created: created, Modified: modified})
	t.wantAbsent("b")
	if r := t.commit(broker.Txn{If: []broker.Cond{
		broker.Created(t.prefix+"a", created), broker.Modified(t.prefix+"a", modified), broker.Absent(t.prefix + "b"),
	}}); !r.OK {
		t.Error("after compaction the conditions that held before fail")
	}
}
