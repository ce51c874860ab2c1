package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// place is a candidate's place in the queue at a revision.
type place struct {
	// ahead is the entry right before it, nil for the first. second is true if no other is ahead.
	ahead  *broker.KV
	second bool
	// leader is the first, as far as it is known.
	leader string
	rev    broker.Revision
}

// follow waits in the queue until this candidate is first, leads, and returns why that
// ended.
func (c *sessionRun) follow(t *attempt) error {
	ctx := t.ctx
	p, err := c.find(ctx)
	for err == nil {
		switch {
		case p.ahead == nil && c.session.MayStart():
			return c.lead(t)
		case p.ahead == nil:
			// It waits for a renewal, and reads its place again after that.
			pause.For(ctx, c.timing.Renew/10)
		default:
			c.learn(p.leader)
			next, known, failed := c.awaitTurn(ctx, p)
			if failed != nil && !errors.Is(failed, errLook) {
				c.failed(ctx, fmt.Errorf("follow: %w", failed), &c.watching)
			}
			if p = next; known {
				continue
			}
		}
		p, err = c.find(ctx)
	}
	return err
}

// find lists the queue and finds the own entry in it.
func (c *sessionRun) find(ctx context.Context) (p place, err error) {
	var queue []broker.KV
	err = c.retry(ctx, func(ctx context.Context) (err error) {
		queue, p.rev, err = queueOf(ctx, c.broker, c.member.space, c.name)
		return err
	})
	if err != nil {
		return place{}, err
	}
	own := slices.IndexFunc(queue, func(kv broker.KV) bool { return kv.Key == c.entry })
	switch {
	case own < 0 || !c.isOwn(&queue[own]):
		return place{}, ErrDeposed
	case own > 0:
		ahead := queue[own-1] // a copy, so that the queue is freed
		p.ahead, p.second = &ahead, own == 1
	case noteOf(queue[own]).Resign:
		return place{}, ErrResigned // it was asked before it knew that it is the first
	}
	p.leader = candidateOf(queue[0].Key)
	return p, nil
}

// awaitTurn waits until the place changes, and returns the new one if it is known without asking.
// Nobody joins before others: when the entry of one that leads is gone, the next is the first. Who
// leads says so in its entry. Who waits further behind does not know who else is ahead.
func (c *sessionRun) awaitTurn(ctx context.Context, p place) (next place, known bool, err error) {
	there := ctx
	if p.second {
		var stop context.CancelFunc
		there, stop = c.whileThere(ctx, p.rev)
		defer stop()
	} else if c.listens {
		defer c.hear(ctx)()
	}
	event, err := c.watchKey(there, p.ahead.Key, p.rev+1, func(event broker.Event) bool {
		return isOver(*p.ahead, event) || !p.second && noteOf(event.KV).Leads
	})
	switch {
	case there.Err() != nil:
		return place{}, false, context.Cause(there)
	case event == nil:
		return place{}, false, err
	case isOver(*p.ahead, *event):
		return place{}, p.second, nil
	}
	return place{ahead: p.ahead, second: true, leader: candidateOf(p.ahead.Key), rev: event.KV.Modified}, true, nil
}

// hear learns of leaders who are further ahead than the entry that this candidate watches, until stop is
// called. It follows the whole queue, so it is only for who listens.
func (c *sessionRun) hear(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	heard := make(chan struct{})
	c.member.work.Go(func() {
		defer close(heard)
		// Not Observe: whether the leader renews its session is for others, and costs a read every few seconds.
		follow(ctx, c.broker, c.member.space, c.member.space.Election(c.name), func(s step) bool {
			if first := s.queues.first(c.name); first.Key != "" {
				c.learn(candidateOf(first.Key))
			}
			return true
		})
	})
	return func() {
		cancel()
		<-heard // or its events would come beside others
	}
}

// errLook ends what whileThere returns when it is time to look who is ahead.
var errLook = errors.New("the own entry has changed, or has not for long")

// whileThere returns a context that ends when the own entry is gone, or cannot be watched. Who is next
// leads without asking whether it is still there: somebody may have deleted it by hand.
func (c *sessionRun) whileThere(ctx context.Context, from broker.Revision) (there context.Context, stop context.CancelFunc) {
	there, cancel := context.WithCancelCause(ctx)
	own := c.joins.own
	c.member.work.Go(func() {
		_, err := watchKey(there, c.broker, c.entry, from+1, func(event broker.Event) bool {
			return event.Deleted || event.KV.Created != own || noteOf(event.KV).Resign
		})
		cancel(cmp.Or(err, errLook))
	})
	return there, func() { cancel(nil) }
}

// isOver reports whether an event means that an entry no longer exists.
func isOver(entry broker.KV, event broker.Event) bool {
	return event.Deleted || event.KV.Created != entry.Created
}

// isOwn reports whether kv is the candidate's entry and belongs to its session.
func (c *sessionRun) isOwn(kv *broker.KV) bool {
	return isEntry(kv, c.joins.own) && kv.Session == c.session.ID()
}

// isGone reports whether an event of the own key means that the own entry no longer
// exists, or does not belong to the session. The end of the attempt deletes what is left.
func (c *sessionRun) isGone(event broker.Event) bool { return event.Deleted || !c.isOwn(&event.KV) }

// lead begins a term and returns why it ended. No other entry is before the own one.
func (c *sessionRun) lead(t *attempt) error {
	now := &term{attempt: t, Term: Term{
		Election: c.name, Candidate: c.member.config.Candidate, Token: int64(c.joins.own), entry: c.entry,
	}}
	c.mu.Lock()
	ended := t.ctx.Err() != nil
	if !ended {
		c.term = now
		c.broadcast()
	}
	c.mu.Unlock()
	if ended {
		return context.Cause(t.ctx)
	}
	c.events.Elected(now.Term)
	c.learn(now.Candidate)
	for {
		rev, err := c.tellNext(t.ctx)
		if err != nil {
			return err
		}
		event, err := c.watchKey(t.ctx, c.entry, rev+1, func(event broker.Event) bool {
			return c.isGone(event) || noteOf(event.KV).Resign
		})
		switch {
		case event != nil && c.isGone(*event):
			return ErrDeposed
		case event != nil:
			return ErrResigned
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case err != nil:
			c.failed(t.ctx, fmt.Errorf("lead: %w", err), &c.watching)
		}
	}
}

// tellNext notes in the own entry that its candidate leads, for whoever is next: see awaitTurn. It
// returns a revision at which the entry was there, or why the term is over: somebody may have
// deleted the entry by hand, or may have asked to resign before it was known who leads.
func (c *sessionRun) tellNext(ctx context.Context) (broker.Revision, error) {
	var r broker.Result
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		r, err = broker.CommitOne(ctx, c.broker, broker.Txn{
			If:   []broker.Cond{broker.Modified(c.entry, c.joins.own)}, // as it joined
			Then: []broker.Op{broker.PutSession(c.entry, note{Candidate: c.member.config.Candidate, Leads: true}.encode(), c.session.ID())},
			Else: []broker.Op{broker.Read(c.entry)},
		})
		return err
	})
	switch {
	case err != nil, r.OK:
		return r.Revision, err
	case r.Reads[0] == nil || !c.isOwn(r.Reads[0]):
		return 0, ErrDeposed
	case noteOf(*r.Reads[0]).Resign:
		return 0, ErrResigned
	}
	return r.Revision, nil
}
