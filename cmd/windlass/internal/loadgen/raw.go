package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// The sizes of the measurement of the broker alone.
const (
	rawPuts    = 300
	rawBulkMax = 20_000
	rawRounds  = 3
	// rawTTL is the TTL of the session of raw claims.
	rawTTL = 60 * time.Second
)

// rawValue is about as long as a stored task.
var rawValue = []byte(strings.Repeat("x", 100))

// measureRaw measures below a prefix and leaves nothing there. Rates in bulk are medians of
// several rounds, because the speed of a broker varies.
func measureRaw(ctx context.Context, b broker.Broker, prefix string, tasks int) (*Raw, error) {
	began := time.Now()
	for i := range rawPuts {
		if _, err := commitAll(ctx, b, []broker.Txn{{Then: []broker.Op{broker.Put(fmt.Sprintf("%sputs/%d", prefix, i), rawValue)}}}); err != nil {
			return nil, err
		}
	}
	raw := &Raw{Puts: perSecond(rawPuts, time.Since(began))}
	var puts, claims []float64
	for range rawRounds {
		put, claim, err := rawRound(ctx, b, prefix, min(tasks, rawBulkMax))
		if err != nil {
			return nil, err
		}
		puts, claims = append(puts, put), append(claims, claim)
	}
	raw.BulkPuts, raw.BulkClaims = median(puts), median(claims)
	return raw, nil
}

func median(rates []float64) float64 {
	slices.Sort(rates)
	return rates[len(rates)/2]
}

func rawRound(ctx context.Context, b broker.Broker, prefix string, n int) (puts, claims float64, err error) {
	session, err := b.Grant(ctx, "", rawTTL)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.Revoke(context.WithoutCancel(ctx), session.ID)) }()
	submit, claim := make([]broker.Txn, n), make([]broker.Txn, n)
	for i := range n {
		task := prefix + "tasks/" + taskID(i)
		submit[i].Then = []broker.Op{broker.Put(task, rawValue)}
		claim[i] = broker.Txn{
			If:   []broker.Cond{broker.Exists(task), broker.Absent(task + "/owner")},
			Then: []broker.Op{broker.PutSession(task+"/owner", coordinator.OwnerValue("raw"), session.ID)},
		}
	}
	put, err := commitAll(ctx, b, submit)
	if err != nil {
		return 0, 0, err
	}
	claimed, err := commitAll(ctx, b, claim)
	if err != nil {
		return 0, 0, err
	}
	return perSecond(n, put), perSecond(n, claimed), removeTree(ctx, b, prefix)
}

// commitAll commits transactions, all of which must be applied, and returns how long it took.
func commitAll(ctx context.Context, b broker.Broker, txns []broker.Txn) (time.Duration, error) {
	began := time.Now()
	results := b.Commit(ctx, txns...)
	took := time.Since(began)
	for _, r := range results {
		if r.Err != nil {
			return took, r.Err
		}
		if !r.OK {
			return took, errors.New("a transaction was refused: someone else writes into the namespace")
		}
	}
	return took, nil
}
