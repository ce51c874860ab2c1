package zoott

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/tree"
)

// ours takes jobs with Windlass.
type ours struct {
	brokers []broker.Broker
	tree    *tree.Tree
	node    *windlass.Node
	stop    context.CancelFunc
	running sync.WaitGroup
	queued  int
	ran     error
}

// jobType is that of all jobs.
const jobType = "job"

func openOurs(ctx context.Context, address string) (*ours, error) {
	o := &ours{stop: func() {}}
	open := func() (*zookeeper.Broker, error) {
		b, err := zookeeper.Open(ctx, zookeeper.Config{Servers: []string{address}, Chroot: "/bench", TickTime: time.Second, RequestTimeout: time.Minute})
		if err == nil {
			o.brokers = append(o.brokers, b)
		}
		return b, err
	}
	queueing, err := open()
	if err == nil {
		o.tree, err = tree.New(queueing, "")
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	taking, err := open()
	if err == nil {
		o.node, err = windlass.NewNode(windlass.Config{Broker: taking, Name: "n", SessionTTL: sessionTimeout, Pulls: []string{jobType}})
	}
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	o.running.Go(func() { o.ran = o.node.Run(ctx) })
	return o, nil
}

// queue makes n jobs pending.
func (o *ours) queue(ctx context.Context, n int) error {
	for n > 0 {
		requests := make([]tree.Request, min(n, tree.ChildrenMax))
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%06d", o.queued+i), Type: jobType}
		}
		if _, err := o.tree.Queue(ctx, requests...); err != nil {
			return err
		}
		o.queued += len(requests)
		n -= len(requests)
	}
	return nil
}

// take takes the first job and completes it.
func (o *ours) take(ctx context.Context) error {
	d, err := o.node.Dequeue(ctx, jobType)
	if err != nil {
		return err
	}
	return d.Complete(ctx)
}

func (o *ours) close() error {
	o.stop()
	o.running.Wait()
	err := o.ran
	for _, b := range o.brokers {
		err = errors.Join(err, b.Close())
	}
	return err
}
