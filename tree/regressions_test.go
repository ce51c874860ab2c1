package tree

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
)

// racing calls f once, before the first Commit.
type racing struct {
	broker.Broker
	before func()
}

func (r *racing) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if f := r.before; f != nil {
		r.before = nil
		f()
	}
	return r.Broker.Commit(ctx, txns...)
}

func TestRegression_ClearDoesNotTakeTheAncestorsOfAJobThatIsQueuedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		ctx := t.Context()
		other, err := New(store.Broker(), "test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Queue(ctx, Request{Name: "a", Type: "t"}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Queue(ctx, Request{Name: "b", Type: "t", Parent: "a_t"}); err != nil {
			t.Fatal(err)
		}
		race := &racing{Broker: store.Broker()}
		jobs, err := New(race, "test")
		if err != nil {
			t.Fatal(err)
		}
		race.before = func() {
			if _, err := other.Queue(ctx, Request{Name: "b", Type: "t", Parent: "a_t", Data: []byte(`2`)}); err != nil {
				t.Error(err)
			}
		}
		cleared, err := jobs.Clear(ctx, false)
		if err != nil {
			t.Fatal(err)
		}
		pending, err := other.Pending(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range pending {
			if len(j.BlockedBy) == 0 && j.Parent != "" {
				t.Errorf("%s can start, Clear has removed %v and returned no error", j.Path, cleared)
			}
		}
	})
}

func TestRegression_TheLimitOfChildrenHoldsForTwoWhoQueueInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer store.Close()
		ctx := t.Context()
		var trees []*Tree
		for range 3 {
			one, err := New(store.Broker(), "test")
			if err != nil {
				t.Fatal(err)
			}
			trees = append(trees, one)
		}
		if _, err := trees[0].Queue(ctx, Request{Name: "a", Type: "t"}); err != nil {
			t.Fatal(err)
		}
		for i, one := range trees { // each has counted
			if _, err := one.Queue(ctx, Request{Name: fmt.Sprint("first", i), Type: "t", Parent: "a_t"}); err != nil {
				t.Fatal(err)
			}
		}
		for i, one := range trees {
			var requests []Request
			for k := range ChildrenMax - 10 {
				requests = append(requests, Request{Name: fmt.Sprint(i, "-", k), Type: "t", Parent: "a_t"})
			}
			_, _ = one.Queue(ctx, requests...)
		}
		records, _, err := trees[0].records(ctx)
		if err != nil || len(records) > ChildrenMax+100 {
			t.Errorf("%d jobs, %v", len(records), err)
		}
	})
}
