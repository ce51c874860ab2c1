package brokertest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/windlass-go/windlass/broker"
)

var longRules = []Rule{
	{Number: "B58", Name: "watch_knows_the_store_after_each_batch", test: watchLong,
		Sentence: "Whoever applies whole batches, or lists, has what the store had at their revisions, also where long values are overwritten meanwhile."},
}

func watchLong(t *trial) {
	const writers, writes, shorts = 3, 40, 20
	from := t.put("start", "") + 1
	var wg sync.WaitGroup
	defer wg.Wait()
	same := func(when string, state map[string]string) {
		for w := range writers {
			if short, long := state[strconv.Itoa(w)], state[fmt.Sprint("long-", w)]; short != long {
				t.Errorf("%s the long value is of write %q and the short one of %q", when, long, short)
			}
		}
	}
	for w := range writers {
		wg.Go(func() { writeLong(t, w, writes) })
	}
	wg.Go(func() {
		for i := range shorts {
			t.tryWrite(broker.Put(t.prefix+"a/short", []byte(strconv.Itoa(i))))
		}
	})
	wg.Go(func() {
		for range shorts {
			kvs, revision, err := broker.Collect(t.ctx, t.broker, t.prefix+"a/")
			if err != nil {
				t.Errorf("List: %v", err)
				return
			}
			listed := map[string]string{}
			for _, kv := range kvs {
				listed[strings.TrimPrefix(kv.Key, t.prefix+"a/")], _, _ = strings.Cut(string(kv.Value), " ")
			}
			same(fmt.Sprint("in the listing at ", revision), listed)
		}
	})
	state := map[string]string{}
	seen := 0
	t.follow("a/", from, patience, func(b broker.Batch) bool {
		for _, event := range b.Events {
			key, value := strings.TrimPrefix(event.KV.Key, t.prefix+"a/"), string(event.KV.Value)
			if key == "short" {
				if value != strconv.Itoa(seen) {
					t.Errorf("%s has value %s, want %d", describe(event), value, seen)
				}
				seen++
			}
			if state[key], _, _ = strings.Cut(value, " "); event.Deleted {
				delete(state, key)
			}
		}
		done := seen == shorts
		for w := range writers {
			done = done && state[strconv.Itoa(w)] == strconv.Itoa(writes-1)
		}
		same(fmt.Sprint("after the batch up to ", b.Revision), state)
		return done
	})
}

// writeLong writes a long and a short value together, again and again.
func writeLong(t *trial, writer, writes int) {
	long, short := fmt.Sprintf("%sa/long-%d", t.prefix, writer), fmt.Sprintf("%sa/%d", t.prefix, writer)
	for i := range writes {
		n := strconv.Itoa(i)
		if i%8 == 3 {
			t.tryWrite(broker.Delete(long), broker.Delete(short))
			continue
		}
		value := append([]byte(n+" "), bytes.Repeat([]byte{byte(writer)}, broker.WatchedValueBytes<<writer)...)
		t.tryWrite(broker.Put(long, value), broker.Put(short, []byte(n)))
	}
}
