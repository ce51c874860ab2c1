package growth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/bench/internal/stats"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/tree"
)

// lists is how often all tasks are listed.
const lists = 5

// jobType is that of the jobs.
const jobType = "job"

// pending returns how long it takes to list so many pending tasks, for each of them,
// and to take one, in the median, in microseconds. What is taken is replaced, so
// that there are always as many.
func pending(ctx context.Context, endpoints []string, size, takes int) (list, dequeue float64, err error) {
	p := &pool{}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.open(ctx, endpoints); err != nil {
		return 0, 0, err
	}
	if err := p.queue(ctx, size); err != nil {
		return 0, 0, err
	}
	var listed []float64
	for range lists {
		began := time.Now()
		tasks, err := p.client.Tasks(ctx, windlass.Filter{})
		if err != nil {
			return 0, 0, err
		}
		if len(tasks) != size {
			return 0, 0, fmt.Errorf("%d tasks are listed of %d", len(tasks), size)
		}
		listed = append(listed, float64(time.Since(began))/float64(time.Microsecond)/float64(size))
	}
	taken, err := p.take(ctx, takes)
	return stats.Median(listed), stats.Median(taken), err
}

// pool is jobs, and a node that takes them when asked to.
type pool struct {
	brokers []*etcd.Broker
	tree    *tree.Tree
	client  *windlass.Client
	node    *windlass.Node
	stop    context.CancelFunc
	running sync.WaitGroup
	ran     error
	queued  int
}

func (p *pool) open(ctx context.Context, endpoints []string) error {
	var err error
	for range 2 { // the node has a connection of its own
		var b *etcd.Broker
		if b, err = etcd.Open(ctx, etcd.Config{Endpoints: endpoints}); err != nil {
			return err
		}
		p.brokers = append(p.brokers, b)
	}
	if p.tree, err = tree.New(p.brokers[0], ""); err != nil {
		return err
	}
	if p.client, err = windlass.NewClient(p.brokers[0], ""); err != nil {
		return err
	}
	p.node, err = windlass.NewNode(windlass.Config{Broker: p.brokers[1], Name: "n", Pulls: []string{jobType}})
	return err
}

// queue makes n jobs pending.
func (p *pool) queue(ctx context.Context, n int) error {
	for n > 0 {
		requests := make([]tree.Request, min(n, tree.ChildrenMax))
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%08d", p.queued+i), Type: jobType}
		}
		if _, err := p.tree.Queue(ctx, requests...); err != nil {
			return err
		}
		p.queued += len(requests)
		n -= len(requests)
	}
	return nil
}

// take takes jobs one by one, and returns how long each call took, but for the first
// tenth: the node may still be reading the tasks by then.
func (p *pool) take(ctx context.Context, takes int) (took []float64, err error) {
	running, stop := context.WithCancel(ctx)
	p.stop = stop
	p.running.Go(func() { p.ran = p.node.Run(running) })
	warmUp := max(1, takes/10)
	for i := range warmUp + takes {
		began := time.Now()
		d, err := p.node.Dequeue(ctx, jobType)
		if err != nil {
			return nil, err
		}
		if i >= warmUp {
			took = append(took, float64(time.Since(began))/float64(time.Microsecond))
		}
		if err := d.Complete(ctx); err != nil {
			return nil, err
		}
		if err := p.queue(ctx, 1); err != nil {
			return nil, err
		}
	}
	return took, nil
}

func (p *pool) close() error {
	if p.stop != nil {
		p.stop()
	}
	p.running.Wait()
	err := p.ran
	for _, b := range p.brokers {
		err = errors.Join(err, b.Close())
	}
	return err
}
