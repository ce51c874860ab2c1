package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

var latestRules = []Rule{
	{Number: "B58", Name: "latest_keys_are_found", test: latest,
		Sentence: "Latest has the keys below a prefix that were created last, however often they were changed since."},
	{Number: "B59", Name: "latest_keys_are_not_older_than_asked", test: latestAtLeast,
		Sentence: "Latest that may answer from a revision or any later one answers from none before it."},
}

func latest(t *trial) {
	t.put("first", "so that there is a revision before those of d")
	var revisions []broker.Revision
	for i := range 5 {
		revisions = append(revisions, t.put(fmt.Sprintf("d/%d", 9-i), "v"))
	}
	t.put("d/9", "changed")   // which is not created anew
	t.put("d0", "a sibling")  // which merely begins alike
	t.put("d", "no child")    // the prefix's own
	t.put("d/7/child", "new") // as deep as it may be
	want := func(upTo broker.Revision, n int, names ...string) {
		t.Helper()
		kvs, rev, err := broker.Latest(t.ctx, t.broker, t.prefix+"d/", upTo, n, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, kv := range kvs {
			got = append(got, strings.TrimPrefix(kv.Key, t.prefix+"d/"))
		}
		if !slices.Equal(got, names) || rev < revisions[4] {
			t.Errorf("the latest %d up to %d are %q at %d, want %q", n, upTo, got, rev, names)
		}
	}
	want(revisions[4], 10, "5", "6", "7", "8", "9")
	want(revisions[4], 2, "5", "6")
	want(revisions[2], 2, "7", "8")
	want(revisions[0]-1, 2)
	t.write(broker.Delete(t.prefix + "d/8"))
	again := t.put("d/8", "again")
	want(again, 3, "8", "7/child", "5")
	want(revisions[4], 10, "5", "6", "7", "9")
	kvs, _, err := broker.Latest(t.ctx, t.broker, t.prefix+"d/", again, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantKV(t, kvs[0], t.get("d/8"))
}

// latestAtLeast makes the members of a store that has several answer in turns, each
// right after a change that another one may have told of.
func latestAtLeast(t *trial) {
	for i := range 30 {
		key := fmt.Sprintf("d/%d", i%3)
		at := t.put(key, "v")
		if i%2 == 1 {
			at = t.write(broker.Delete(t.prefix + key))
		}
		kvs, rev, err := broker.Latest(t.ctx, t.broker, t.prefix+"d/", at, 10, at)
		if err != nil {
			t.Fatal(err)
		}
		there := slices.ContainsFunc(kvs, func(kv broker.KV) bool { return kv.Key == t.prefix+key && kv.Created == at })
		if rev < at || there != (i%2 == 0) {
			t.Errorf("%d: at %d, which is %d or later, the key is there: %v", i, rev, at, there)
		}
	}
	if _, _, err := broker.Latest(t.ctx, t.broker, t.prefix+"d/", 1, 1, -1); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("a revision of -1: %v", err)
	}
}
