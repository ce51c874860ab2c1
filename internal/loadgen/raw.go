package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// How much is measured of the broker alone.
const (
	rawPuts     = 300
	rawClaimMax = 20_000
	rawRounds   = 3
	// rawTTL is that of the session that raw claims live with.
	rawTTL = 60 * time.Second
)

// limits are what the broker does at best, for one client, measured at the start
// of a run.
type limits struct {
	// put is the time of one write, with nothing else going on.
	put spread
	// putsPerSecond are writes one after the other, batchedPerSecond in bulk.
	putsPerSecond, batchedPerSecond float64
	// claimsPerSecond are transactions of the bare shape of a claim, in bulk:
	// the median of all rounds, the slowest and the fastest.
	claimsPerSecond, claimsLeast, claimsMost float64
	// claims is how many there were in a round.
	claims int
}

// measureLimits measures below a prefix and leaves nothing there.
func measureLimits(ctx context.Context, b broker.Broker, prefix string, tasks int) (l limits, err error) {
	l.claims = min(tasks, rawClaimMax)
	if err := l.measurePuts(ctx, b, prefix); err != nil {
		return l, err
	}
	var puts, claims []float64
	for range rawRounds {
		put, claim, err := rawRound(ctx, b, prefix, l.claims)
		if err != nil {
			return l, err
		}
		puts, claims = append(puts, put), append(claims, claim)
	}
	l.batchedPerSecond, _, _ = middle(puts)
	l.claimsPerSecond, l.claimsLeast, l.claimsMost = middle(claims)
	return l, nil
}

func (l *limits) measurePuts(ctx context.Context, b broker.Broker, prefix string) error {
	var times []time.Duration
	began := time.Now()
	for i := range rawPuts {
		at := time.Now()
		if _, err := commitAll(ctx, b, []broker.Txn{{Then: []broker.Op{broker.Put(fmt.Sprintf("%sputs/%d", prefix, i), rawValue)}}}); err != nil {
			return err
		}
		times = append(times, time.Since(at))
	}
	l.put, l.putsPerSecond = newSpread(times), perSecond(rawPuts, time.Since(began))
	return removeTree(ctx, b, prefix)
}

// rawValue is about as long as what is stored of a task.
var rawValue = []byte(strings.Repeat("x", 100))

// rawRound writes the keys of n tasks and then claims them, each in bulk.
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
	took, err := commitAll(ctx, b, submit)
	if err != nil {
		return 0, 0, err
	}
	puts = perSecond(n, took)
	if took, err = commitAll(ctx, b, claim); err != nil {
		return 0, 0, err
	}
	return puts, perSecond(n, took), removeTree(ctx, b, prefix)
}
