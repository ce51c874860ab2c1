package elections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/election"
)

// takeOverTTL is the TTL of the leaders' sessions, the least that etcd's client and
// Windlass both take, and cutAfter is when a leader is cut off.
const (
	takeOverTTL = 5 * time.Second
	cutAfter    = 3 * time.Second
)

// TakeOver cuts leaders off from the store, as many on each side, all at about the
// same time, and measures when the next one leads: how many milliseconds after the
// expiry of the leader's session, which is a TTL after its last renewal was sent. The
// result is by side.
func TakeOver(ctx context.Context, endpoints []string, leaders int) (late [sidesCount][]float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for side, lose := range []func(context.Context, []string, int) (time.Duration, error){Windlass: windlassTakeOver, Etcd: etcdTakeOver} {
		for i := range leaders {
			all.Go(func() {
				// Spread over the time between two renewals.
				after, failed := time.Duration(0), pause(ctx, takeOverTTL/3*time.Duration(i)/time.Duration(leaders))
				if failed == nil {
					after, failed = lose(ctx, endpoints, i)
				}
				mu.Lock()
				defer mu.Unlock()
				if failed != nil {
					err = errors.Join(err, failed)
					cancel()
					return
				}
				late[side] = append(late[side], milliseconds(after))
			})
		}
	}
	all.Wait()
	return late, err
}

// windlassTakeOver loses one leader of ours.
func windlassTakeOver(ctx context.Context, endpoints []string, number int) (late time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	namespace := fmt.Sprint("takeover", number)
	leads := make(chan struct{}, 2)
	first, client, err := stand(ctx, &running, endpoints, namespace, "0", leads)
	if err != nil {
		return 0, err
	}
	defer first.Close() // nothing is written that counts
	if err := await(ctx, leads); err != nil {
		return 0, err
	}
	second, _, err := stand(ctx, &running, endpoints, namespace, "1", leads)
	if err != nil {
		return 0, err
	}
	defer second.Close() // as above
	if err := pause(ctx, cutAfter); err != nil {
		return 0, err
	}
	client.cut.Store(true)
	if err := await(ctx, leads); err != nil {
		return 0, err
	}
	return client.sinceExpiry(), nil
}

// stand has a candidate stand on a line of its own, which says when it leads.
func stand(ctx context.Context, running *sync.WaitGroup, endpoints []string, namespace, name string, leads chan<- struct{}) (*etcd.Broker, *dialed, error) {
	client, err := dial(endpoints)
	if err != nil {
		return nil, nil, err
	}
	line := etcd.New(client.Client, etcd.Options{})
	m, err := election.New(election.Config{Broker: line, Namespace: namespace, Candidate: name, TTL: takeOverTTL})
	if err != nil {
		return nil, nil, errors.Join(err, line.Close())
	}
	e, err := m.Election("e", election.Events{})
	if err == nil {
		err = e.Start()
	}
	if err != nil {
		return nil, nil, errors.Join(err, line.Close())
	}
	running.Go(func() { _ = m.Run(ctx) }) // who is cut off ends with an error
	running.Go(func() {
		_ = e.Lead(ctx, func(ctx context.Context, _ election.Term) error {
			leads <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	})
	return line, client, nil
}

func await(ctx context.Context, leads <-chan struct{}) error {
	select {
	case <-leads:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nobody leads: %w", context.Cause(ctx))
	}
}

// etcdTakeOver loses one leader of the etcd client's.
func etcdTakeOver(ctx context.Context, endpoints []string, number int) (late time.Duration, err error) {
	name := fmt.Sprint("/peer/takeover", number)
	session := func() (*dialed, *concurrency.Session, error) {
		client, err := dial(endpoints)
		if err != nil {
			return nil, nil, err
		}
		s, err := concurrency.NewSession(client.Client, concurrency.WithTTL(int(takeOverTTL/time.Second)), concurrency.WithContext(ctx))
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		return client, s, nil
	}
	client, first, err := session()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeQuietly(client.Client)) }()
	if err := concurrency.NewElection(first, name).Campaign(ctx, "0"); err != nil {
		return 0, err
	}
	other, second, err := session()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeQuietly(other.Client)) }()
	var campaign sync.WaitGroup
	var lost error
	leads := make(chan struct{}, 1)
	campaign.Go(func() {
		if lost = concurrency.NewElection(second, name).Campaign(ctx, "1"); lost == nil {
			leads <- struct{}{}
		}
	})
	defer campaign.Wait()
	if err := pause(ctx, cutAfter); err != nil {
		return 0, err
	}
	first.Orphan() // it is renewed no more, and not revoked
	if err := await(ctx, leads); err != nil {
		return 0, err
	}
	return client.sinceExpiry(), nil
}

// closeQuietly closes a client of which nothing is expected any more.
func closeQuietly(client *clientv3.Client) error {
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
