package etcd

import (
	"context"
	"sync"
	"time"
)

// hedgeAfter is the part of an attempt's time in which the first member that is
// asked has to answer, and then any.
const hedgeAfter = 4

// hedged makes a request of one member, and of all of them at once when that one has been
// silent for a while or cannot; and again when no answer has come of that. A connection
// that has died without a word looks alive for seconds, and requests take turns among all
// that look so: a node that still reaches one of three members could by bad luck miss it
// until its session is lost. All means the first one again, because others have had their
// turns since; as many in a row miss none, unless another one comes between them. The
// request must be one that may be made twice, and settled tells of an answer that no other
// member would change.
//
// After Dean and Barroso, The Tail at Scale, 2013: hedged requests.
func hedged[T any](ctx context.Context, members int, request func(context.Context) (T, error), settled func(error) bool) (T, error) {
	ask := func(ctx context.Context) (T, error) {
		answer, err := request(ctx)
		// The others may be silent, and must not be waited for before it is asked again.
		for isNoLeader(err) && pause(ctx, leaderPause) {
			answer, err = request(ctx)
		}
		return answer, err
	}
	if members < 2 {
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
	answers := make(chan answer, 1+(hedgeAfter-1)*members)
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
		for i := 0; i < members && sent < cap(answers); i++ {
			asked.Go(one)
			sent++
		}
	}
}
