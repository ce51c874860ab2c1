package subtree_test

import (
	"context"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/subtree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExpand_PutsTheJobsOfATreeInThePlaceOfItsNeed(t *testing.T) {
	store := memory.New()
	defer store.Close()
	b := store.Broker()
	space, err := keys.New("s")
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"a_t", "a_t|b_t", "a_t|b_t|c_t", "ab_t|d_t", "a_t|e_t"} {
		if _, err := broker.CommitOne(context.Background(), b, broker.Txn{Then: []broker.Op{broker.Put(space.Job(job), nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ blockers, want []string }{
		{nil, nil},
		{[]string{"x", "a_t"}, []string{"x", "a_t"}},
		{[]string{"x", "a_t|e_t", "a_t|*", "a_t|b_t|*", "y"}, []string{"x", "a_t|e_t", "a_t|b_t", "a_t|b_t|c_t", "y"}},
		{[]string{"plain|*", "|*", "a/b|*", "none_t|*"}, nil},
	} {
		if got, err := subtree.Expand(context.Background(), b, space, c.blockers); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, %v, want %q", c.blockers, got, err, c.want)
		}
	}
}
