package windlass_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/tree"
)

// overloaded takes no write of one key for a while: of several transactions in one
// call, that one fails.
type overloaded struct {
	broker.Broker
	key   string
	until time.Time
}

func (o *overloaded) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	var sent []broker.Txn
	var at []int
	results := make([]broker.Result, len(txns))
	for i, txn := range txns {
		writes := slices.ContainsFunc(txn.Then, func(op broker.Op) bool { return op.Kind == broker.OpPut && op.Key == o.key })
		if writes && time.Now().Before(o.until) {
			e := broker.NewError("commit", o.key, broker.ErrUnavailable, errors.New("overloaded"))
			e.Maybe = true
			results[i].Err = e
			continue
		}
		sent, at = append(sent, txn), append(at, i)
	}
	for k, r := range o.Broker.Commit(ctx, sent...) {
		results[at[k]] = r
	}
	return results
}

func TestRegression_ACascadeDoesNotStartAJobBeforeTheOneAboveIt(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		var order []string
		c.join("n", handlers(map[string]func(context.Context, *windlass.Claim) error{"t": func(_ context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			order = append(order, claim.ID())
			return nil
		}}))
		ids := []string{"a_t", "a_t|m_t", "a_t|m_t|z_t"}
		for _, id := range ids {
			c.job(id)
		}
		c.eventually(10*time.Second, "all are completed", c.hasStatus(ids[2], windlass.StatusCompleted))
		c.sleep(time.Second)
		c.mu.Lock()
		order = nil
		c.mu.Unlock()
		jobs, err := tree.New(&overloaded{Broker: c.connect(), key: "/test/tasks/" + ids[1], until: time.Now().Add(200 * time.Millisecond)}, "test")
		if err != nil {
			t.Fatal(err)
		}
		queued, err := jobs.Queue(ctx, tree.Request{Name: "a", Type: "t", Cascade: true})
		t.Logf("%v, %v", queued, err)
		c.sleep(time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Equal(order, ids) {
			t.Errorf("they ran in the order %q", order)
		}
	})
}
