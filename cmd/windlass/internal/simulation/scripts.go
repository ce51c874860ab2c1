package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/windlasstest"
)

// startScript starts a script: a program without a node that claims one job and works
// on it until it ends it, dies, or its time is over.
func (w *world) startScript() {
	j := w.jobs
	j.scripts++
	owner := fmt.Sprintf("script-%d", j.scripts)
	random := rand.New(rand.NewPCG(w.options.Seed, uint64(10_000+j.scripts)))
	j.pullers.Go(func() { w.script(owner, random) })
}

// scriptTries is how often a script asks for a job, a second apart.
const scriptTries = 10

func (w *world) script(owner string, random *rand.Rand) {
	jobType := jobTypes[random.IntN(len(jobTypes))]
	ttl := session.TTLMin + time.Duration(random.Int64N(int64(w.profile.ttl-session.TTLMin)+1))
	for range scriptTries {
		var d lease.Lease
		err := w.attempt(func(ctx context.Context) (err error) {
			d, err = w.leases.Dequeue(ctx, jobType, owner, ttl)
			return err
		})
		var wrong *windlass.BadInputError
		switch {
		case err == nil:
			w.scriptWorks(d, random)
			return
		case errors.As(err, &wrong):
			w.fail("Z07: %s is refused: %v", owner, err)
			return
		}
		time.Sleep(time.Second)
	}
}

// scriptWorks runs a job in a script.
func (w *world) scriptWorks(d lease.Lease, random *rand.Rand) {
	j := w.jobs
	r := w.newRun(windlasstest.Run{Task: d.ID, Node: d.Owner, Token: d.Token}, d.Props)
	r.pulled = true
	j.mu.Lock()
	j.runs[r.Task] = append(j.runs[r.Task], r)
	j.mu.Unlock()
	v, after := j.draw(r)
	dies := random.IntN(5) == 0
	left := time.Until(d.Until)
	if dies {
		v = stopped
	}
	time.Sleep(min(after, left))
	j.say(r, v)
	if dies {
		w.count("job taken by a script: died")
		return
	}
	if after > left { // it does not notice that its time is over
		time.Sleep(after - left)
	}
	err := w.attempt(func(ctx context.Context) error {
		switch v {
		case completes:
			return w.leases.Complete(ctx, d.ID, d.Token, nil)
		case failsForGood:
			return w.leases.Fail(ctx, d.ID, d.Token, windlass.Permanent(errFlaky))
		case fails, panics:
			return w.leases.Fail(ctx, d.ID, d.Token, errFlaky)
		default:
			return w.leases.Release(ctx, d.ID, d.Token)
		}
	})
	switch {
	case err == nil:
		w.count("job taken by a script: ended")
	case errors.Is(err, windlass.ErrFenced), errors.Is(err, windlass.ErrNotFound):
		w.count("job taken by a script: too late")
	case errors.Is(err, windlass.ErrWorking):
		w.fail("Z07: the verdict of %v is refused: %v", r, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r.accepted = err == nil
}

// announcing is a connection that announces to the log the claims that it asks to end.
type announcing struct {
	broker.Broker
	log *history.Log
}

// Commit implements broker.Broker.
func (a announcing) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	for _, txn := range txns {
		owners := map[string]broker.Revision{}
		for _, c := range txn.If {
			if c.Kind == broker.CondCreated {
				owners[c.Key] = c.Revision
			}
		}
		for _, op := range txn.Then {
			id, isOwner := strings.CutSuffix(strings.TrimPrefix(op.Key, prefix+"tasks/"), "/owner")
			if token := owners[op.Key]; isOwner && token != 0 && op.Kind == broker.OpDelete {
				a.log.Ending(id, token)
			}
		}
	}
	return a.Broker.Commit(ctx, txns...)
}
