package brokertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

var watchRules = []Rule{
	{Number: "B32", Name: "watch_begins_in_the_past", test: watchPast,
		Sentence: "A watch delivers every change from the revision asked for on, that revision included and earlier ones not."},
	{Number: "B33", Name: "watch_begins_in_the_future", test: watchFuture,
		Sentence: "A watch from a revision not yet reached delivers nothing before it, and everything from it on."},
	{Number: "B34", Name: "watch_has_no_gap_and_no_double", test: watchWhileWriting,
		Sentence: "While writers run, a watch delivers each change exactly once, in order of the revisions."},
	{Number: "B35", Name: "watch_continues_a_listing", test: watchAfterList,
		Sentence: "A listing, and a watch from its revision plus one, have together every change exactly once."},
	{Number: "B36", Name: "watch_keeps_transactions_whole", test: watchWhole,
		Sentence: "The changes of one transaction are delivered in one batch, however many or large they are."},
	{Number: "B37", Name: "watch_spares_siblings", test: watchSiblings,
		Sentence: "A watch sees what is below its prefix: not the prefix's own node, nor a sibling that begins alike."},
	{Number: "B38", Name: "watch_sees_keys_as_they_were", test: watchEvents,
		Sentence: "A put is delivered with the key as it was after it; a deletion with its own revision, and nothing else."},
	{Number: "B39", Name: "watch_makes_progress", test: watchProgress,
		Sentence: "A watch tells at least every ProgressMax how far it is, even if only keys elsewhere change."},
	{Number: "B40", Name: "watch_ends_when_its_caller_does", test: watchBreak,
		Sentence: "A watch may be left after any batch, and another begun at once."},
	{Number: "B41", Name: "watch_ends_with_its_context", test: watchContext,
		Sentence: "A watch whose context ends yields ErrUnavailable with the context's error, and nothing more."},
}

var keyRules = []Rule{
	{Number: "B57", Name: "watch_of_one_key", test: watchOne,
		Sentence: "A watch of a key sees that key, its deletions and its return, and nothing beside or below it."},
}

func watchPast(t *trial) {
	var revisions []broker.Revision
	for i := range 10 {
		revisions = append(revisions, t.put("a/"+strconv.Itoa(i%3), strconv.Itoa(i)))
	}
	for first := range revisions {
		events := t.followN("a/", revisions[first], len(revisions)-first)
		for i, event := range events {
			if want := revisions[first+i]; event.KV.Modified != want || string(event.KV.Value) != strconv.Itoa(first+i) {
				t.Errorf("event %d from revision %d is %s, want value %d at %d", i, revisions[first], describe(event), first+i, want)
			}
		}
	}
}

func watchFuture(t *trial) {
	from := t.put("a/x", "0") + 5
	var want []broker.Revision
	var writer sync.WaitGroup
	writer.Go(func() {
		for len(want) < 3 && t.ctx.Err() == nil {
			if r := t.tryWrite(broker.Put(t.prefix+"a/x", nil)); r >= from {
				want = append(want, r)
			}
		}
	})
	defer writer.Wait()
	events := t.followN("a/", from, 3)
	writer.Wait()
	for i, event := range events {
		if event.KV.Modified != want[i] {
			t.Errorf("event %d is %s, want revision %d", i, describe(event), want[i])
		}
	}
}

func watchWhileWriting(t *trial) {
	const writers, writes = 4, 60
	from := t.put("start", "") + 1
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range writes {
				t.tryWrite(broker.Put(fmt.Sprintf("%sa/%d", t.prefix, w), []byte(strconv.Itoa(i))),
					broker.Put(t.prefix+"a/all", []byte(strconv.Itoa(w)))) // which every writer writes
			}
		})
	}
	defer wg.Wait()
	events := t.followN("a/", from, 2*writers*writes)
	next := map[string]int{}
	for _, event := range events {
		if event.KV.Key == t.prefix+"a/all" {
			next["all"]++
			continue
		}
		if got := string(event.KV.Value); got != strconv.Itoa(next[event.KV.Key]) {
			t.Errorf("%s has value %s, want %d", describe(event), got, next[event.KV.Key])
		}
		next[event.KV.Key]++
	}
	if next["all"] != writers*writes {
		t.Errorf("the key that all write changed %d times, want %d", next["all"], writers*writes)
	}
}

func watchAfterList(t *trial) {
	const writes = 100
	t.put("a/x", "0")
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range writes {
			t.tryWrite(broker.Put(t.prefix+"a/x", []byte(strconv.Itoa(i+1))))
		}
	})
	defer writer.Wait()
	for range 5 {
		kvs, rev := t.list("a/")
		seen, _ := strconv.Atoi(string(kvs[0].Value))
		want := min(writes-seen, 10)
		if want == 0 {
			break
		}
		got := 0
		events := t.follow("a/", rev+1, patience, func(b broker.Batch) bool {
			got += len(b.Events)
			return got >= want // more may have been written meanwhile
		})
		for i, event := range events {
			if got := string(event.KV.Value); got != strconv.Itoa(seen+1+i) {
				t.Errorf("after a listing with value %d the event %d has value %s", seen, i, got)
			}
		}
	}
}

func watchWhole(t *trial) {
	var ops, large []broker.Op
	for i := range broker.TxnOpsMax {
		ops = append(ops, broker.Put(fmt.Sprintf("%sa/many/%d", t.prefix, i), bytes.Repeat([]byte{byte(i)}, 8<<10)))
	}
	for i := range 2 {
		large = append(large, broker.Put(fmt.Sprintf("%sa/large/%d", t.prefix, i), make([]byte, broker.ValueBytesMax)))
	}
	first, second := t.write(ops...), t.write(large...)
	t.wantWhole(first, second, map[broker.Revision]int{first: len(ops), second: len(large)})
	t.write(broker.DeleteTree(t.prefix + "a/"))
	first = t.put("a/first", "")
	want := map[broker.Revision]int{first: 1}
	for i := range 6 { // makes more keys than one transaction could name
		want[t.fill("a/fill"+strconv.Itoa(i)+"/", broker.TxnOpsMax)] = broker.TxnOpsMax
	}
	last := t.write(broker.DeleteTree(t.prefix + "a/"))
	want[last] = 6*broker.TxnOpsMax + 1
	t.wantWhole(first, last, want)
}

// wantWhole checks the number of changes of each revision of a watch, each in one batch.
func (t *trial) wantWhole(first, last broker.Revision, want map[broker.Revision]int) {
	t.Helper()
	seen := 0
	t.follow("a/", first, patience, func(b broker.Batch) bool {
		got := map[broker.Revision]int{}
		for _, event := range b.Events {
			got[event.KV.Modified]++
		}
		for rev, n := range got {
			seen++
			if n != want[rev] {
				t.Errorf("a batch has %d of the %d changes of revision %d", n, want[rev], rev)
			}
		}
		return b.Revision >= last
	})
	if seen != len(want) {
		t.Errorf("the batches have changes of %d revisions, want %d", seen, len(want))
	}
}

func watchSiblings(t *trial) {
	first := t.put("before", "")
	putAwkward(t)
	t.write(broker.DeleteTree(t.prefix + "a/"))
	t.write(broker.Delete(t.prefix + "a"))
	t.put("a/end", "")
	// Six below a/ are put, and deleted; batchCheck refuses what is elsewhere.
	t.followN("a/", first, 13)
	t.followN("ab/", first, 1)
}

func watchEvents(t *trial) {
	s := t.grant()
	k := t.prefix + "a/k"
	first := t.put("a/k", "1")
	second := t.put("a/k", "2")
	third := t.write(broker.Delete(k))
	fourth := t.write(broker.PutSession(k, []byte("4"), s.ID))
	fifth := t.write(broker.DeleteTree(t.prefix + "a/"))
	t.write(broker.Delete(k)) // changes nothing
	sixth := t.put("a/k", "")
	events := t.followN("a/", first, 6)
	want := []broker.Event{
		{KV: broker.KV{Key: k, Value: []byte("1"), Created: first, Modified: first}},
		{KV: broker.KV{Key: k, Value: []byte("2"), Created: first, Modified: second}},
		{Deleted: true, KV: broker.KV{Key: k, Modified: third}},
		{KV: broker.KV{Key: k, Value: []byte("4"), Created: fourth, Modified: fourth, Session: s.ID}},
		{Deleted: true, KV: broker.KV{Key: k, Modified: fifth}},
		{KV: broker.KV{Key: k, Created: sixth, Modified: sixth}},
	}
	for i, event := range events[:min(len(events), len(want))] {
		if event.Deleted != want[i].Deleted {
			t.Errorf("event %d is %s, want deleted to be %t", i, describe(event), want[i].Deleted)
		}
		wantKV(t, event.KV, want[i].KV)
	}
}

func watchProgress(t *trial) {
	first := t.put("a/x", "")
	last := t.put("b/x", "")
	started := time.Now()
	t.follow("a/", first, patience, func(b broker.Batch) bool { return b.Revision >= last })
	if took := time.Since(started); took > 2*broker.ProgressMax {
		t.Errorf("the watch told after %v that it is complete up to a change elsewhere, want at most %v",
			took, 2*broker.ProgressMax)
	}
}

func watchOne(t *trial) {
	first := t.put("before", "")
	putAwkward(t)
	session := t.grant()
	puts := []broker.Revision{t.put("one", "1"), t.put("one", "2")}
	gone := t.write(broker.Delete(t.prefix + "one"))
	t.put("one-more", "")
	t.put("onemore", "")
	back := t.write(broker.PutSession(t.prefix+"one", []byte("3"), session.ID))
	t.revoke(session.ID)
	t.put("one/below", "")
	want := append(puts, gone, back)
	var got []broker.Revision
	t.follow("one", first, patience, func(b broker.Batch) bool {
		for _, e := range b.Events {
			if e.KV.Key != t.prefix+"one" {
				t.Errorf("%s is not the key that is watched", describe(e))
			}
			got = append(got, e.KV.Modified)
		}
		return len(got) > len(want)
	})
	if !slices.Equal(got[:len(want)], want) {
		t.Errorf("the watch delivered changes at %v, want %v and the end of the session", got, want)
	}
}

func watchBreak(t *trial) {
	first := t.put("a/x", "1")
	t.put("a/x", "2")
	for range 20 {
		for _, err := range t.broker.Watch(t.ctx, t.prefix+"a/", first) {
			if err != nil {
				t.Fatalf("Watch: %v", err)
			}
			break
		}
	}
	t.followN("a/", first, 2)
}

func watchContext(t *trial) {
	first := t.put("a/x", "1")
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	last := t.watchError(ctx, t.prefix+"a/", first, cancel)
	t.wantKind("the watch", last, broker.ErrUnavailable)
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the watch ended with %v, want the context's error as its cause", last)
	}
}
