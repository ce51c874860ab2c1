package session

import (
	"context"
	"sync"

	"github.com/windlass-go/windlass/broker"
)

// Keep opens a session and keeps it alive until release is called; release waits for
// its end. ctx is used for opening only.
func Keep(ctx context.Context, b broker.Broker, config Config) (s *Session, release func(), err error) {
	s, err = Open(ctx, b, config)
	if err != nil {
		return nil, nil, err
	}
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { _ = s.Run(alive) }) // the cause is in the session's context
	return s, func() {
		stop()
		keeping.Wait()
	}, nil
}
