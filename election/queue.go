package election

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// place is a candidate's place in the queue at a revision.
type place struct {
	// ahead is the entry right before it, nil for the first.
	ahead  *broker.KV
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
			return c.lead(t, p.rev)
		case p.ahead == nil:
			// It waits for a renewal, and reads its place again after that.
			pause.For(ctx, c.timing.Renew/10)
		default:
			c.learn(p.leader)
			if err := c.awaitGone(ctx, *p.ahead, p.rev+1); err != nil {
				c.failed(ctx, fmt.Errorf("follow: %w", err), &c.watching)
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
		p.ahead = &ahead
	case isResigning(queue[own]):
		return place{}, ErrResigned // it was asked before it knew that it is the first
	}
	p.leader = candidateOf(queue[0].Key)
	return p, nil
}

// isOwn reports whether kv is the candidate's entry and belongs to its session.
func (c *sessionRun) isOwn(kv *broker.KV) bool {
	return isEntry(kv, c.joins.own) && kv.Session == c.session.ID()
}

// isGone reports whether an event of the own key means that the own entry no longer
// exists, or does not belong to the session. The end of the attempt deletes what is left.
func (c *sessionRun) isGone(event broker.Event) bool { return event.Deleted || !c.isOwn(&event.KV) }

// lead begins a term and returns why it ended. The own entry is known to be the
// first at rev.
func (c *sessionRun) lead(t *attempt, rev broker.Revision) error {
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
		event, err := c.watchKey(t.ctx, c.entry, rev+1, func(event broker.Event) bool {
			return c.isGone(event) || isResigning(event.KV)
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
		p, err := c.find(t.ctx) // the first stays the first
		if err != nil {
			return err
		}
		rev = p.rev
	}
}
