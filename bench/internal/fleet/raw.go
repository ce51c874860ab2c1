package fleet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/windlass-go/windlass/bench/internal/stats"
)

// How much is measured of the broker besides. The claims are as many as there are
// tasks, within bounds, and so are the puts.
const (
	rawMin, rawMax = 100, 5000
	// claimsAtOnce is how many are under way where they are not one by one.
	claimsAtOnce = 64
	// watchers each have a connection of their own, as nodes do.
	watchers   = 10
	putsAtOnce = 64
	rawTTL     = 60
)

// limits are what the broker does at best.
type limits struct {
	// single and atOnce are bare claims in a second, one by one and many under way.
	single, atOnce float64
	// events is how many events watches tell in a second, all together, delays how
	// long after its put was sent one is told, in milliseconds.
	events float64
	delays []float64
}

func dial(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
}

// measureLimits measures below a prefix of its own; the etcd goes afterwards.
func measureLimits(ctx context.Context, endpoints []string, tasks int) (l limits, err error) {
	n := min(max(tasks, rawMin), rawMax)
	client, err := dial(endpoints)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	lease, err := client.Grant(ctx, rawTTL)
	if err != nil {
		return l, err
	}
	for _, kind := range []struct {
		rate   *float64
		atOnce int
		n      int
	}{{&l.single, 1, max(n/10, rawMin)}, {&l.atOnce, claimsAtOnce, n}} {
		prefix := fmt.Sprintf("/raw/%d/", kind.atOnce)
		began := time.Now()
		if err := atOnce(kind.atOnce, kind.n, func(i int) error {
			owner := fmt.Sprintf("%s%06d/owner", prefix, i)
			r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(owner), "=", 0)).
				Then(clientv3.OpPut(owner, `{"node":"n"}`, clientv3.WithLease(lease.ID))).Commit()
			if err == nil && !r.Succeeded {
				err = errors.New("a bare claim was refused")
			}
			return err
		}); err != nil {
			return l, err
		}
		*kind.rate = float64(kind.n) / time.Since(began).Seconds()
	}
	l.events, l.delays, err = fanOut(ctx, client, endpoints, n)
	return l, err
}

// atOnce calls f for all numbers below n, so many at a time.
func atOnce(workers, n int, f func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = f(i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// fanOut has watchers follow so many puts.
func fanOut(ctx context.Context, client *clientv3.Client, endpoints []string, puts int) (rate float64, delays []float64, err error) {
	const prefix = "/raw/watched/"
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	told := make([][]float64, watchers)
	errs := make([]error, watchers)
	for i := range told {
		follower, err := dial(endpoints)
		if err != nil {
			return 0, nil, err
		}
		defer func() { _ = follower.Close() }() // all that it was asked for is there by then
		changes := follower.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		if r := <-changes; !r.Created {
			return 0, nil, errors.Join(errors.New("a watch did not begin"), r.Err())
		}
		all.Go(func() { told[i], errs[i] = follow(changes, puts) })
	}
	began := time.Now()
	if err := atOnce(putsAtOnce, puts, func(i int) error {
		_, err := client.Put(ctx, fmt.Sprintf("%s%06d", prefix, i), string(binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))))
		return err
	}); err != nil {
		return 0, nil, err
	}
	all.Wait()
	took := time.Since(began)
	for _, some := range told {
		delays = append(delays, some...)
	}
	return float64(len(delays)) / took.Seconds(), delays, errors.Join(errs...)
}

// follow hears of all that is put, and returns how long after it was sent.
func follow(changes clientv3.WatchChan, puts int) (delays []float64, err error) {
	for r := range changes {
		now := time.Now().UnixNano()
		if r.Err() != nil {
			return delays, r.Err()
		}
		for _, e := range r.Events {
			sent := int64(binary.BigEndian.Uint64(e.Kv.Value))
			delays = append(delays, float64(now-sent)/float64(time.Millisecond))
		}
		if len(delays) == puts {
			return delays, nil
		}
	}
	return delays, errors.New("a watch ended")
}

func (l limits) delay(p float64) float64 { return stats.Percentile(l.delays, p) }
