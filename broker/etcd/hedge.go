package etcd

import (
	"context"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// hedgeAfter is the part of an attempt's time in which the first member that is
// asked has to answer, and then any.
const hedgeAfter = 4

// hedging is how many more requests are made at a time, and at most, when a member is
// silent.
type hedging struct{ each, most int }

// toAll asks all members, and again when no answer has come of that. A connection that
// has died without a word looks alive for seconds, and requests take turns among all that
// look so: a node that still reaches one of three members could by bad luck miss it until
// its session is lost. All means the first one again, because others have had their turns
// since; as many in a row miss none, unless another one comes between them.
func (b *Broker) toAll() hedging {
	n := len(b.client.Endpoints())
	if n < 2 {
		return hedging{}
	}
	return hedging{n, (hedgeAfter - 1) * n}
}

// toAnother asks one other member once, so that an overloaded cluster is not asked for much
// more.
func (b *Broker) toAnother() hedging {
	if len(b.client.Endpoints()) < 2 {
		return hedging{}
	}
	return hedging{1, 1}
}

// anywhere makes a request, which may be made twice, of as many members as it takes.
func anywhere[T any](ctx context.Context, b *Broker, op, key string, more hedging, request func(context.Context) (T, error)) (answer T, e *broker.Error) {
	e = b.call(ctx, op, key, func(ctx context.Context) (err error) {
		answer, err = hedged(ctx, more, request)
		return err
	})
	return answer, e
}

// settled tells of an answer that no other member would change. What is permitted a member
// that lags behind may not know yet.
func settled(err error) bool {
	kind, _ := classify(err)
	return err == nil || kind != broker.ErrUnavailable && kind != broker.ErrNoQuorum && kind != broker.ErrPermission
}

// hedged makes a request of one member, and of more when that one has been silent for a
// while or cannot.
//
// After Dean and Barroso, The Tail at Scale, 2013: hedged requests.
func hedged[T any](ctx context.Context, more hedging, request func(context.Context) (T, error)) (T, error) {
	ask := func(ctx context.Context) (T, error) {
		answer, err := request(ctx)
		// The others may be silent, and must not be waited for before it is asked again.
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
				continue // others may yet answer
			}
		case <-hedge.C:
		}
		for i := 0; i < more.each && sent < cap(answers); i++ {
			asked.Go(one)
			sent++
		}
	}
}
