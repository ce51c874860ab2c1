package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// WorkerRole is the argument with which this program is a worker.
const WorkerRole = "job-worker"

// consumers are the bodies of the workers: each takes jobs until ctx ends, and says
// that it is ready when it has begun.
var consumers = map[string]func(context.Context, order, *counter) error{
	systemWindlass: consumeWindlass, systemRiver: consumeRiver, systemAsynq: consumeAsynq,
}

// RunWorker is the body of a worker process: it takes jobs until in ends.
func RunWorker(ctx context.Context, in io.Reader, out io.Writer, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("which worker: %w", err)
	}
	consume := consumers[o.System]
	if consume == nil {
		return fmt.Errorf("system %q: there is no worker for it", o.System)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := newCounter(out)
	var teller sync.WaitGroup
	teller.Go(func() { c.tell(ctx.Done()) })
	var reader sync.WaitGroup // it is left behind when the worker fails first, and the process ends
	reader.Go(func() { _, _ = io.Copy(io.Discard, in); stop() })
	err := consume(ctx, o, c)
	if ctx.Err() == nil && err == nil {
		err = errors.New("the worker has stopped by itself")
	}
	stop()
	teller.Wait()
	return err
}
