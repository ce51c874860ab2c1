package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// asynq's settings. It has no call for many jobs at once, so many goroutines enqueue
// them. The defaults are as many handlers at a time as processors, and a check of an
// empty queue once a second.
const (
	asynqConcurrency   = 256
	asynqCheckInterval = 10 * time.Millisecond
	asynqEnqueuers     = 256
)

const systemAsynq = "asynq"

// When Redis writes its log to disk: before a command is acknowledged, or within a
// second, which is lost if the machine crashes.
const (
	redisFsyncAlways      = "always"
	redisFsyncEverySecond = "everysec"
)

// asynqStore is a Redis server with a random password, because this machine may have
// other users. It takes no snapshots.
type asynqStore struct {
	server    *child
	address   string
	password  string
	client    *asynq.Client
	inspector *asynq.Inspector
}

func openAsynq(fsync string) func(testing.TB, bool) store {
	return func(tb testing.TB, _ bool) store {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			tb.Skip("there is no Redis: install redis-server")
		}
		port, dir := ports(tb, 1)[0], tb.TempDir()
		s := &asynqStore{address: fmt.Sprintf("127.0.0.1:%d", port), password: rand.Text()}
		config := filepath.Join(dir, "redis.conf")
		text := fmt.Sprintf("bind 127.0.0.1\nport %d\ndir %s\nrequirepass %s\nappendonly yes\nappendfsync %s\nsave \"\"\n", port, dir, s.password, fsync)
		must(tb, os.WriteFile(config, []byte(text), 0o600))
		s.server = startChild(tb, server("TERM", filepath.Join(dir, "log"), path, config), func([]byte) {})
		options := asynq.RedisClientOpt{Addr: s.address, Password: s.password, PoolSize: asynqEnqueuers}
		s.client, s.inspector = asynq.NewClient(options), asynq.NewInspector(options)
		awaitReady(tb, s.server, func(context.Context) error { return s.client.Ping() })
		return s
	}
}

func (s *asynqStore) order() workerOrder {
	return workerOrder{System: systemAsynq, Address: s.address, Password: s.password, Tuned: true}
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
				_, errs[i] = s.client.EnqueueContext(ctx, asynq.NewTask(noopType, strconv.AppendInt(nil, number, 10)))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// settledEvery is how often Redis is asked whether all jobs are completed.
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

func (s *asynqStore) pids() []int { return []int{s.server.pid()} }

func (s *asynqStore) close() error {
	return errors.Join(s.client.Close(), s.inspector.Close(), s.server.close())
}

func consumeAsynq(ctx context.Context, o workerOrder, c *counter) error {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: o.Address, Password: o.Password, PoolSize: asynqConcurrency}, asynq.Config{
		Concurrency: asynqConcurrency, TaskCheckInterval: asynqCheckInterval, LogLevel: asynq.ErrorLevel,
	})
	// A job is not completed when its handler returns, so settled asks the store.
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		c.runs()
		c.completes()
		return nil
	})); err != nil {
		return err
	}
	c.ready()
	<-ctx.Done()
	server.Shutdown()
	return nil
}
