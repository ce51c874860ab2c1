package brokertest

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

var readRules = []Rule{
	{Number: "B01", Name: "missing_key_is_not_found", test: missingKey,
		Sentence: "Get of a key that does not exist, or no longer does, is ErrNotFound."},
	{Number: "B02", Name: "key_carries_its_revisions", test: keyFields,
		Sentence: "A key carries the revision of its creation, that of its last change, and its session."},
	{Number: "B03", Name: "parents_are_not_keys", test: parentsAreNotKeys,
		Sentence: "A key needs no parent, and putting it creates none."},
	{Number: "B04", Name: "values_are_bytes", test: valuesAreBytes,
		Sentence: "A value is any bytes, none at all included."},
	{Number: "B05", Name: "list_is_in_byte_order", test: listOrder,
		Sentence: "A listing is in ascending order of the keys' bytes, whatever characters they have."},
	{Number: "B06", Name: "list_spares_siblings", test: listSiblings,
		Sentence: "A listing has what is below its prefix: not the prefix's own node, nor a sibling that merely begins alike."},
	{Number: "B07", Name: "empty_list_has_a_revision", test: listEmpty,
		Sentence: "A listing of nothing is one page without keys, with a revision."},
	{Number: "B08", Name: "list_pages_are_one_snapshot", test: listSnapshot,
		Sentence: "All pages of a listing are read at one revision, whatever is written meanwhile."},
	{Number: "B09", Name: "list_of_large_values_is_whole", test: listLarge,
		Sentence: "A listing may be larger than any message of the store: more than 4 MiB comes in pages."},
	{Number: "B10", Name: "list_stops_when_its_caller_does", test: listBreak,
		Sentence: "A listing may be left after any page."},
}

func missingKey(t *trial) {
	t.wantAbsent("a")
	t.put("a", "1")
	t.write(broker.Delete(t.prefix + "a"))
	t.wantAbsent("a")
}

func keyFields(t *trial) {
	s := t.grant()
	created := t.put("a", "1")
	wantKV(t, t.get("a"), broker.KV{Key: t.prefix + "a", Value: []byte("1"), Created: created, Modified: created})

	modified := t.put("a", "2")
	if modified <= created {
		t.Errorf("the second put has revision %d, want more than %d", modified, created)
	}
	wantKV(t, t.get("a"), broker.KV{Key: t.prefix + "a", Value: []byte("2"), Created: created, Modified: modified})

	rev := t.write(broker.PutSession(t.prefix+"b", []byte("3"), s.ID))
	want := broker.KV{Key: t.prefix + "b", Value: []byte("3"), Created: rev, Modified: rev, Session: s.ID}
	wantKV(t, t.get("b"), want)
	again := t.write(broker.PutSession(t.prefix+"b", []byte("4"), s.ID))
	want.Value, want.Modified = []byte("4"), again
	wantKV(t, t.get("b"), want)

	kvs, listed := t.list("")
	if len(kvs) != 2 || listed < again {
		t.Fatalf("the listing has %d keys at revision %d, want 2 at %d or later", len(kvs), listed, again)
	}
	wantKV(t, kvs[1], want)
}

func wantKV(t *trial, got, want broker.KV) {
	t.Helper()
	if got.Key != want.Key || !bytes.Equal(got.Value, want.Value) || got.Created != want.Created ||
		got.Modified != want.Modified || got.Session != want.Session {
		t.Errorf("the key is %+v, want %+v", got, want)
	}
}

func parentsAreNotKeys(t *trial) {
	t.put("a/b/c", "1")
	t.wantAbsent("a", "a/b")
	t.wantNames("", "a/b/c")
	t.put("a", "2")
	t.write(broker.Delete(t.prefix + "a"))
	t.wantAbsent("a", "a/b")
	if got := t.get("a/b/c"); string(got.Value) != "1" {
		t.Errorf("after its parent was put and deleted the key has value %q, want 1", got.Value)
	}
}

func valuesAreBytes(t *trial) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	values := map[string][]byte{"none": nil, "empty": {}, "zero": {0}, "zeros": make([]byte, 1000), "all": all,
		"invalid UTF-8": {0xff, 0xfe}, "long": bytes.Repeat(all, 100)}
	for name, value := range values {
		t.write(broker.Put(t.prefix+name, value))
		if got := t.get(name).Value; !bytes.Equal(got, value) {
			t.Errorf("value %q was read back as %d other bytes", name, len(got))
		}
	}
	kvs, _ := t.list("")
	if len(kvs) != len(values) {
		t.Errorf("%d keys are listed, want %d", len(kvs), len(values))
	}
	for _, kv := range kvs {
		if want := values[strings.TrimPrefix(kv.Key, t.prefix)]; !bytes.Equal(kv.Value, want) {
			t.Errorf("the value of %s was listed as %d other bytes", kv.Key, len(kv.Value))
		}
	}
}

// putAwkward puts keys of which one begins like another, or that sort differently if a
// store compares segments, or ignores case, instead of comparing bytes. It returns their
// names in order.
func putAwkward(t *trial) []string {
	names := []string{
		"a", "a b", "a!", "a-1", "a.b", "a/1", "a/10", "a/2", "a/b/c", "a0", "ab", "ab/x", "a|b", "a~",
		"A", "B", "a/é", "a/e\u0301", "日本", "\U0001F600", "%2F", "a%2Fb", `a\b`, "a*", "a?b", "{id}", "$HOME", "'q'", `"q"`,
	}
	var ops []broker.Op
	for _, name := range names {
		ops = append(ops, broker.Put(t.prefix+name, []byte(name)))
	}
	t.write(ops...)
	slices.Sort(names)
	return names
}

func listOrder(t *trial) {
	want := putAwkward(t)
	t.wantNames("", want...)
	for _, name := range want {
		if got := t.get(name); string(got.Value) != name {
			t.Errorf("key %q has the value of %q", name, got.Value)
		}
	}
}

func listSiblings(t *trial) {
	putAwkward(t)
	t.wantNames("a/", "a/1", "a/10", "a/2", "a/b/c", "a/e\u0301", "a/é")
	t.wantNames("ab/", "ab/x")
	t.wantNames("a/1/")
}

func listEmpty(t *trial) {
	rev := t.put("elsewhere", "1")
	pages := 0
	for page, err := range t.broker.List(t.ctx, t.prefix+"nothing/") {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		if len(page.KVs) != 0 || page.Revision < rev {
			t.Errorf("page %+v, want no keys and at least revision %d", page, rev)
		}
		pages++
	}
	if pages != 1 {
		t.Errorf("the listing has %d pages, want 1", pages)
	}
}

func listSnapshot(t *trial) {
	const n = 5_200
	written := t.fill("many/", n)
	var names []string
	var revision broker.Revision
	pages := 0
	for page, err := range t.broker.List(t.ctx, t.prefix+"many/") {
		if err != nil {
			t.Fatalf("List after %d pages: %v", pages, err)
		}
		if pages == 0 {
			revision = page.Revision
		}
		if page.Revision != revision || revision < written {
			t.Errorf("page %d has revision %d, want %d and at least %d", pages, page.Revision, revision, written)
		}
		for _, kv := range page.KVs {
			if kv.Modified > revision || string(kv.Value) == "late" {
				t.Errorf("key %s of the listing at %d was changed at %d", kv.Key, revision, kv.Modified)
			}
			names = append(names, kv.Key)
		}
		pages++
		// The first in order, a new one, and the last in order but one.
		t.write(broker.Put(t.prefix+"many/0", []byte("late")), broker.Put(t.prefix+"many/~", []byte("late")),
			broker.Put(t.prefix+"many/999", []byte("late")), broker.Delete(t.prefix+"many/998"))
	}
	if len(names) != n || !slices.IsSorted(names) || len(slices.Compact(names)) != n {
		t.Errorf("the listing has %d keys, want %d, ascending and each once", len(names), n)
	}
	if got, _ := t.list("many/"); len(got) != n { // one more, one less
		t.Errorf("the next listing has %d keys, want %d", len(got), n)
	}
}

func listLarge(t *trial) {
	const n, size = 12, 400 << 10
	for i := range n {
		t.write(broker.Put(t.prefix+"large/"+string(rune('a'+i)), bytes.Repeat([]byte{byte(i)}, size)))
	}
	kvs, _ := t.list("large/")
	if len(kvs) != n {
		t.Fatalf("the listing has %d keys, want %d", len(kvs), n)
	}
	for i, kv := range kvs {
		if !bytes.Equal(kv.Value, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Errorf("%s has another value", kv.Key)
		}
	}
}

func listBreak(t *trial) {
	t.fill("many/", 3_000)
	started := time.Now()
	for range t.broker.List(t.ctx, t.prefix+"many/") {
		break
	}
	if took := time.Since(started); took > patience {
		t.Errorf("leaving the listing took %v", took)
	}
	t.put("many/0", "still writable")
}
