package election

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// place is where a candidate stands in line.
type place struct {
	// ahead are those before it in their order; at least the last few.
	ahead []broker.KV
	// leader is who leads, empty where that was not read.
	leader string
	// rev is when.
	rev broker.Revision
}

// follow waits in line until the turn to lead has come, leads, and returns why
// that ended.
func (c *candidacy) follow(t *turn) error {
	ctx := t.ctx
	p, err := c.find(ctx, broker.LatestMax, newest)
	for err == nil {
		switch {
		case len(p.ahead) == 0 && c.session.MayStart():
			return c.lead(t, p.rev)
		case len(p.ahead) == 0:
			// A renewal is due. What was read is old by then.
			select {
			case <-time.After(c.timing.Renew / 10):
			case <-ctx.Done():
			}
			p, err = c.find(ctx, nearby, newest)
		default:
			if p.leader != "" {
				c.learn(p.leader)
			}
			p, err = c.await(ctx, p)
		}
	}
	return err
}

// await waits until the entry just before the own one is gone, or until something
// else may have changed, and returns the place then.
func (c *candidacy) await(ctx context.Context, p place) (place, error) {
	before := p.ahead[len(p.ahead)-1]
	gone, err := c.awaitGone(ctx, before, p.rev+1)
	if err != nil {
		c.watchFailed(ctx, fmt.Errorf("follow: %w", err))
	}
	if gone == 0 {
		same, rev, err := c.look(ctx, before)
		if err != nil || same {
			p.rev = rev
			return p, err
		}
		gone = rev
	}
	// Only to lead at once is it worth to ask no more than one member.
	p, err = c.find(ctx, nearby, gone)
	if err == nil && len(p.ahead) > 0 {
		p, err = c.find(ctx, nearby, newest)
	}
	return p, err
}

// nearby is how much of the line is read when someone nearby has left it.
const nearby = 16

// newest is the revision to read at for the present state.
const newest = 0

// find reads the line up to the own entry: its last n keys, or all of it where those do
// not tell. It reads the line as it was at a revision or later. Any will do that is not
// before what woke the candidate: who is ahead can only become fewer, because who joins
// again is at the end, so whoever was the first once is the first for as long as its
// entry is there; and the watch of that begins where this read ends.
func (c *candidacy) find(ctx context.Context, n int, atLeast broker.Revision) (place, error) {
	var line []broker.KV
	var rev broker.Revision
	isOwn := func(kv broker.KV) bool {
		return kv.Key == c.entry && kv.Created == c.joins.own && kv.Session == c.session.ID()
	}
	whole := false
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		line, whole, rev, err = c.lineUpTo(ctx, c.joins.own, n, atLeast)
		// All of it is read where it is longer than can be had at once, where one
		// transaction has made so many entries that the own one is not among those
		// read, and where nobody else is: keys that are no candidates' may hide them.
		if err == nil && !whole && (n == broker.LatestMax || slices.IndexFunc(line, isOwn) <= 0) {
			line, rev, err = c.line(ctx)
			whole = true
		}
		return err
	})
	if err != nil {
		return place{}, err
	}
	own := slices.IndexFunc(line, isOwn)
	switch {
	case own < 0:
		return place{}, ErrDeposed
	case own == 0 && isResigning(line[0]):
		return place{}, ErrResigned // asked before it knew that it is the first
	}
	p := place{ahead: line[:own:own], rev: rev}
	if whole {
		p.leader = candidateOf(line[0].Key)
	}
	return p, nil
}

// look tells whether the own entry and another one are both there.
func (c *candidacy) look(ctx context.Context, other broker.KV) (both bool, rev broker.Revision, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{broker.Read(c.entry), broker.Read(other.Key)}})
		if err == nil {
			both, rev = isEntry(r.Reads[0], c.joins.own) && isEntry(r.Reads[1], other.Created), r.Revision
		}
		return err
	})
	return both, rev, err
}

// lead begins a term and returns why it ended. The own entry is known to be the
// first at rev.
func (c *candidacy) lead(t *turn, rev broker.Revision) error {
	now := &term{turn: t, Term: Term{
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
	runtime.Gosched() // the function goes first: what follows is more work than to wake it
	c.events.elected(now.Term)
	c.learn(now.Candidate)
	for {
		own := c.joins.own
		event, err := c.watchKey(t.ctx, c.entry, rev+1, func(event broker.Event) bool {
			return c.isGone(event, own) || isResigning(event.KV)
		})
		switch {
		case event != nil && c.isGone(*event, own):
			return ErrDeposed
		case event != nil:
			return ErrResigned
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case err != nil:
			c.watchFailed(t.ctx, fmt.Errorf("lead: %w", err))
		}
		// The first stays the first for as long as its entry is there.
		p, err := c.find(t.ctx, nearby, newest)
		if err != nil {
			return err
		}
		rev = p.rev
	}
}

// isGone tells whether an event of the own key means that the own entry is there no
// more, or would not go with the session. What is left of it is deleted with the turn.
func (c *candidacy) isGone(event broker.Event, own broker.Revision) bool {
	return event.Deleted || event.KV.Created != own || event.KV.Session != c.session.ID()
}
