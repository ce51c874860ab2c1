package brokertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/windlass-go/windlass/broker"
)

var fenceRules = []Rule{
	{Number: "B27", Name: "one_claimer_wins", test: oneClaimerWins,
		Sentence: "Of any number that claim a key at the same time, exactly one wins."},
	{Number: "B28", Name: "tokens_rise", test: tokensRise,
		Sentence: "Each creation of a key has a higher revision than any before."},
	{Number: "B29", Name: "fence_refuses_old_token", test: fenceRefuses,
		Sentence: "A write that is conditional on an old creation of a key is refused once the key was created again."},
	{Number: "B30", Name: "subtree_delete_spares_siblings", test: subtreeDelete,
		Sentence: "A subtree delete takes all below its prefix, and neither the prefix's own node nor a sibling that begins alike."},
	{Number: "B31", Name: "no_update_is_lost", test: noUpdateLost,
		Sentence: "Writers that read, and write on condition that nothing changed since, lose no update."},
}

func oneClaimerWins(t *trial) {
	const claimers, rounds = 12, 5
	k := t.prefix + "owner"
	for round := range rounds {
		results := make([]broker.Result, claimers)
		var wg sync.WaitGroup
		for i := range claimers {
			wg.Go(func() {
				results[i] = t.broker.Commit(t.ctx, broker.Txn{If: []broker.Cond{broker.Absent(k)},
					Then: []broker.Op{broker.Put(k, []byte(strconv.Itoa(i)))}, Else: []broker.Op{broker.Read(k)}})[0]
			})
		}
		wg.Wait()
		owner := t.get("owner")
		wins := 0
		for i, r := range results {
			switch {
			case r.Err != nil:
				t.Errorf("claimer %d: %v", i, r.Err)
			case r.OK:
				wins++
				if string(owner.Value) != strconv.Itoa(i) || owner.Created != r.Revision {
					t.Errorf("claimer %d won at %d, but the owner is %q, created at %d", i, r.Revision, owner.Value, owner.Created)
				}
			case len(r.Reads) != 1 || r.Reads[0] == nil || r.Reads[0].Created != owner.Created:
				t.Errorf("claimer %d lost and read %+v, want the owner", i, r.Reads)
			}
		}
		if wins != 1 {
			t.Errorf("round %d: %d claimers won, want 1", round, wins)
		}
		t.write(broker.Delete(k))
	}
}

func tokensRise(t *trial) {
	k := t.prefix + "owner"
	var last broker.Revision
	for i := range 12 {
		token := t.put("owner", "x")
		if created := t.get("owner").Created; created != token || token <= last {
			t.Errorf("creation %d has revision %d and result %d, want the same and more than %d", i, created, token, last)
		}
		last = max(t.put("owner", "y"), token)
		if i%2 == 0 {
			t.write(broker.Delete(k))
		} else {
			t.write(broker.DeleteTree(t.prefix))
		}
	}
}

func fenceRefuses(t *trial) {
	owner, state := t.prefix+"owner", t.prefix+"state"
	fenced := func(token broker.Revision, value string) bool {
		t.Helper()
		return t.commit(when(broker.Created(owner, token), broker.Put(state, []byte(value)))).OK
	}
	first := t.put("owner", "same")
	if !fenced(first, "1") {
		t.Error("the owner's write was refused")
	}
	t.put("owner", "changed")
	if !fenced(first, "2") {
		t.Error("the owner's write was refused after its claim was changed, which is no new one")
	}
	t.write(broker.Delete(owner))
	if fenced(first, "3") {
		t.Error("a write with the token of a deleted claim was applied")
	}
	second := t.put("owner", "same")
	if fenced(first, "4") {
		t.Error("a write with the old token was applied after the claim was created again")
	}
	if !fenced(second, "5") {
		t.Error("the new owner's write was refused")
	}
	if got := t.get("state"); string(got.Value) != "5" {
		t.Errorf("the state is %q, want 5", got.Value)
	}
}

func subtreeDelete(t *trial) {
	all := putAwkward(t)
	t.write(broker.DeleteTree(t.prefix + "a/"))
	want := slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, "a/") })
	t.wantNames("", want...)
	t.write(broker.DeleteTree(t.prefix + "ab/"))
	t.wantAbsent("ab/x")
	t.get("ab")
	t.write(broker.Put(t.prefix+"a/1", nil), broker.Delete(t.prefix+"a"))
	t.get("a/1") // deleting a node spares its subtree
	t.write(broker.DeleteTree(t.prefix))
	t.wantNames("")
}

func noUpdateLost(t *trial) {
	const writers, updates = 4, 15
	k := t.prefix + "counter"
	t.put("counter", "0")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < updates && t.ctx.Err() == nil; {
				kv, err := t.broker.Get(t.ctx, k)
				if err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				n, _ := strconv.Atoi(string(kv.Value))
				r, err := broker.CommitOne(t.ctx, t.broker, when(broker.Modified(k, kv.Modified), broker.Put(k, fmt.Append(nil, n+1))))
				if err != nil {
					t.Errorf("Commit: %v", err)
					return
				}
				if r.OK {
					done++
				}
			}
		})
	}
	wg.Wait()
	if got := t.get("counter"); string(got.Value) != strconv.Itoa(writers*updates) {
		t.Errorf("the counter is %s, want %d", got.Value, writers*updates)
	}
}
