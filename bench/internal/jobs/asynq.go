package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/windlass-go/windlass/bench/internal/servers"
)

// asynq's settings. It has no call for many jobs at once, so they are enqueued by
// many goroutines; the defaults are as many handlers at a time as processors, and a
// look at an empty queue once a second.
const (
	asynqConcurrency   = 256
	asynqCheckInterval = 10 * time.Millisecond
	asynqEnqueuers     = 256
)

var asynqTuning = fmt.Sprintf("Concurrency %d and TaskCheckInterval %v in each worker process, %d goroutines that enqueue, on as many connections; %s",
	asynqConcurrency, asynqCheckInterval, asynqEnqueuers, collector)

var (
	asynqSide = side{
		name:     SideAsynq,
		settings: "Redis with appendfsync always, every command on disk before it is acknowledged; " + asynqTuning,
		missing:  servers.MissingRedis, open: openAsynq(servers.FsyncAlways),
	}
	asynqRelaxedSide = side{
		name: SideAsynqRelaxed,
		settings: "the same with appendfsync everysec: what was acknowledged in the last second is lost in a crash of the machine, " +
			"so it is not what the others promise",
		missing: servers.MissingRedis, open: openAsynq(servers.FsyncEverySecond),
	}
)

// asynqStore is a Redis.
type asynqStore struct {
	server    *servers.Redis
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openAsynq(fsync string) func(context.Context, string) (store, error) {
	return func(ctx context.Context, dir string) (store, error) {
		server, err := servers.StartRedis(ctx, dir, fsync)
		if err != nil {
			return nil, err
		}
		options := asynq.RedisClientOpt{Addr: server.Address, Password: server.Password, PoolSize: asynqEnqueuers}
		return &asynqStore{server: server, client: asynq.NewClient(options), inspector: asynq.NewInspector(options)}, nil
	}
}

func (s *asynqStore) order() order {
	return order{System: systemAsynq, Addresses: []string{s.server.Address}, Password: s.server.Password, Tuned: true}
}

func (s *asynqStore) enqueue(ctx context.Context, first, n int) error {
	var next atomic.Int64
	next.Store(int64(first))
	enqueuers := min(asynqEnqueuers, n)
	errs := make([]error, enqueuers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for errs[i] == nil {
				number := next.Add(1) - 1
				if number >= int64(first+n) {
					return
				}
				_, errs[i] = s.client.EnqueueContext(ctx, asynq.NewTask(jobType, strconv.AppendInt(nil, number, 10)))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// settledEvery is how often Redis is asked whether it knows of all that was done.
const settledEvery = time.Millisecond

func (s *asynqStore) settled(ctx context.Context) (time.Time, error) {
	again := time.NewTicker(settledEvery)
	defer again.Stop()
	for {
		asked := time.Now()
		info, err := s.inspector.GetQueueInfo("default")
		if err != nil {
			return time.Time{}, err
		}
		if info.Active+info.Pending == 0 {
			return asked, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

func (s *asynqStore) pids() []int { return s.server.Pids() }

func (s *asynqStore) close() error {
	return errors.Join(s.client.Close(), s.inspector.Close(), s.server.Close())
}

func consumeAsynq(ctx context.Context, o order, c *counter) error {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: o.Addresses[0], Password: o.Password, PoolSize: asynqConcurrency}, asynq.Config{
		Concurrency: asynqConcurrency, TaskCheckInterval: asynqCheckInterval, LogLevel: asynq.ErrorLevel,
	})
	// The handler's return is not yet the job's completion; the one who waits asks
	// the store.
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		c.runs()
		c.completes(1)
		return nil
	})); err != nil {
		return err
	}
	c.ready()
	<-ctx.Done()
	server.Shutdown()
	return nil
}
