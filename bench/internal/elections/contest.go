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

// elected is who leads, and since when.
type elected struct {
	candidate int
	at        time.Time
}

// contest is an election with candidates that stand again whenever they resign. Its
// methods are for one goroutine.
type contest struct {
	client     *dialed
	prefix     string // of the candidates' keys
	candidates int
	resign     func(candidate int)
	leads      chan elected
	leader     int

	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	// release is called when all that runs has ended.
	release func() error
	// failed has the first error of a candidate.
	failed chan error
}

func newContest(endpoints []string, candidates int, prefix string) (*contest, error) {
	client, err := dial(endpoints)
	if err != nil {
		return nil, err
	}
	c := &contest{
		client: client, prefix: prefix, candidates: candidates, leads: make(chan elected, candidates), failed: make(chan error, 1),
		release: client.Close,
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// fail notes an error, if it is the first and nothing is over yet.
func (c *contest) fail(err error) {
	if err == nil || c.ctx.Err() != nil {
		return
	}
	select {
	case c.failed <- err:
	default:
	}
}

func (c *contest) close() error {
	c.stop()
	c.running.Wait()
	return c.release()
}

// next waits for the next leader.
func (c *contest) next(ctx context.Context) (elected, error) {
	select {
	case e := <-c.leads:
		c.leader = e.candidate
		return e, nil
	case err := <-c.failed:
		return elected{}, err
	case <-ctx.Done():
		return elected{}, fmt.Errorf("nobody leads: %w", context.Cause(ctx))
	}
}

// handOver has the leader resign, and returns how long it took until the next led.
func (c *contest) handOver(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	c.resign(c.leader)
	next, err := c.next(ctx)
	return next.at.Sub(began), err
}

// settle waits until all candidates stand.
func (c *contest) settle(ctx context.Context, asking *clientv3.Client) error {
	for {
		r, err := asking.Get(ctx, c.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil || int(r.Count) == c.candidates {
			return err
		}
	}
}

// windlassContest has members stand on a client that they share.
func windlassContest(endpoints []string, candidates int) (*contest, error) {
	c, err := newContest(endpoints, candidates, "/bench/elections/e/")
	if err != nil {
		return nil, err
	}
	store := etcd.New(c.client.Client, etcd.Options{})
	c.release = store.Close
	elections := make([]*election.Election, candidates)
	c.resign = func(i int) {
		c.running.Go(func() { c.fail(elections[i].Resign(c.ctx)) })
	}
	for i := range candidates {
		m, err := election.New(election.Config{Broker: store, Namespace: "bench", Candidate: fmt.Sprint(i), TTL: time.Minute})
		if err == nil {
			elections[i], err = m.Election("e", election.Events{Error: c.fail})
		}
		if err == nil {
			err = elections[i].Start()
		}
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.running.Go(func() { c.fail(m.Run(c.ctx)) })
		c.running.Go(func() {
			c.fail(elections[i].Lead(c.ctx, func(ctx context.Context, _ election.Term) error {
				c.leads <- elected{i, time.Now()}
				<-ctx.Done()
				return ctx.Err()
			}))
		})
	}
	return c, nil
}

// etcdContest is the same with the etcd client's own election.
func etcdContest(endpoints []string, candidates int) (*contest, error) {
	c, err := newContest(endpoints, candidates, "/peer/e/")
	if err != nil {
		return nil, err
	}
	resign := make([]chan struct{}, candidates)
	c.resign = func(i int) { resign[i] <- struct{}{} }
	for i := range candidates {
		resign[i] = make(chan struct{}, 1)
		s, err := concurrency.NewSession(c.client.Client, concurrency.WithTTL(60), concurrency.WithContext(c.ctx))
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		e := concurrency.NewElection(s, "/peer/e")
		c.running.Go(func() { c.fail(c.campaign(e, i, resign[i])) })
	}
	return c, nil
}

// campaign stands until the contest is over.
func (c *contest) campaign(e *concurrency.Election, candidate int, resign <-chan struct{}) error {
	for {
		if err := e.Campaign(c.ctx, fmt.Sprint(candidate)); err != nil {
			return err
		}
		c.leads <- elected{candidate, time.Now()}
		select {
		case <-resign:
		case <-c.ctx.Done():
			return nil
		}
		if err := e.Resign(c.ctx); err != nil {
			return err
		}
	}
}
