package etcd

import (
	"context"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// hedgeAfter is the fraction of an attempt's time, a quarter, after which further requests
// are sent if none has been answered.
const hedgeAfter = 4

// hedging is the number of further requests that are sent at a time, and in total, while
// there is no answer.
type hedging struct{ each, most int }

// toAll sends a request to all members, repeatedly until there is an answer. A connection
// whose peer vanished looks alive for seconds, and gRPC sends requests in turn to all
// members that look alive: a node that still reaches one of three members could miss it
// until its session is lost. The first member is asked again, too, because other requests
// have shifted the turns; as many requests as members, one after the other, miss none unless
// another request comes between them.
func (b *Broker) toAll() hedging {
	n := len(b.client.Endpoints())
	return hedging{n, (hedgeAfter - 1) * n}
}

// toAnother sends a request to one other member once, which adds little load to an
// overloaded cluster.
var toAnother = hedging{1, 1}

// anywhere makes a request that may be sent to several members.
func anywhere[T any](ctx context.Context, b *Broker, op, key string, more hedging, request func(context.Context) (T, error)) (answer T, err error) {
	if len(b.client.Endpoints()) < 2 {
		more = hedging{}
	}
	err = b.call(ctx, op, key, func(ctx context.Context) (err error) {
		answer, err = hedged(ctx, more, request)
		return err
	})
	return answer, err
}

// settled reports whether no other member would answer differently. A member that lags may
// not know of a permission yet.
func settled(err error) bool {
	kind, _ := classify(err)
	return err == nil || kind != broker.ErrUnavailable && kind != broker.ErrNoQuorum && kind != broker.ErrPermission
}

// hedged sends a request to one member, and to more if that one is silent for a while or
// fails.
//
// After Dean and Barroso, The Tail at Scale, 2013: hedged requests.
func hedged[T any](ctx context.Context, more hedging, request func(context.Context) (T, error)) (T, error) {
	ask := func(ctx context.Context) (T, error) {
		answer, err := request(ctx)
		// Other members may be silent, so do not wait for them before asking again.
		for isNoLeader(err) && pause.For(ctx, leaderPause) {
			answer, err = request(ctx)
		}
		return answer, err
	}
	if more.most == 0 {
		return ask(ctx)
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	deadline, _ := ctx.Deadline() // every call has one
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1+more.most)
	one := func() {
		value, err := ask(ctx)
		answers <- answer{value, err}
	}
	asked.Go(one)
	hedge := time.NewTicker(max(time.Until(deadline)/hedgeAfter, time.Millisecond))
	defer hedge.Stop()
	for sent, received := 1, 0; ; {
		select {
		case a := <-answers:
			received++
			switch {
			case settled(a.err), sent > 1 && received == sent:
				return a.value, a.err
			case sent > 1:
				continue // others may still answer
			}
		case <-hedge.C:
		}
		for i := 0; i < more.each && sent < cap(answers); i++ {
			asked.Go(one)
			sent++
		}
	}
}
