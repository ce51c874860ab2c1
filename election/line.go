package election

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// follow waits in line until the turn to lead has come, leads, and returns why
// that ended.
func (c *candidacy) follow(t *turn) error {
	ctx := t.ctx
	ahead, rev, err := c.enterLine(ctx)
	if err != nil {
		return err
	}
	for {
		for len(ahead) == 0 && !c.session.MayStart() {
			// A renewal is due. What was read is old by then.
			select {
			case <-time.After(c.timing.Renew / 10):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if ahead, rev, err = c.look(ctx, ahead); err != nil {
				return err
			}
		}
		if len(ahead) == 0 {
			return c.lead(t, rev)
		}
		c.learn(candidateOf(ahead[0].Key))
		gone, err := c.awaitGone(ctx, ahead[len(ahead)-1], rev+1)
		switch {
		case err != nil:
			c.watchFailed(ctx, fmt.Errorf("follow: %w", err))
		case gone:
			ahead = ahead[:len(ahead)-1]
		}
		if ahead, rev, err = c.look(ctx, ahead); err != nil {
			return err
		}
	}
}

// enterLine lists the line and returns the part ahead of the own entry.
func (c *candidacy) enterLine(ctx context.Context) (ahead []broker.KV, rev broker.Revision, err error) {
	err = c.retry(ctx, func(ctx context.Context) (err error) {
		ahead, rev, err = c.line(ctx)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	for i, kv := range ahead {
		if kv.Key != c.entry || kv.Created != c.joins.own {
			continue
		}
		if i == 0 && isResigning(kv) {
			return nil, 0, ErrResigned // asked before it knew that it is the first
		}
		return ahead[:i:i], rev, nil
	}
	return nil, 0, c.deposed()
}

// lookMax bounds the entries that are read at once when the one before is gone.
const lookMax = 100

// look reads the own entry and the last of those ahead, and while that is gone
// those before it, many at once, for they may have gone long ago. What is ahead
// can only become less: who joins again is at the end.
func (c *candidacy) look(ctx context.Context, ahead []broker.KV) ([]broker.KV, broker.Revision, error) {
	for batch := 1; ; batch = lookMax {
		before, seen := ahead[:max(0, len(ahead)-batch)], ahead[max(0, len(ahead)-batch):]
		ops := []broker.Op{broker.Read(c.entry)}
		for _, kv := range seen {
			ops = append(ops, broker.Read(kv.Key))
		}
		var r broker.Result
		if err := c.retry(ctx, func(ctx context.Context) (err error) {
			r, err = broker.CommitOne(ctx, c.broker, broker.Txn{Then: ops})
			return err
		}); err != nil {
			return nil, 0, err
		}
		own := r.Reads[0]
		if !isEntry(own, c.joins.own) || own.Session != c.session.ID() {
			return nil, 0, c.deposed()
		}
		ahead = slices.Clone(before)
		for i, kv := range seen {
			if isEntry(r.Reads[i+1], kv.Created) {
				ahead = append(ahead, kv)
			}
		}
		switch {
		case len(ahead) > len(before): // someone is there
			return ahead, r.Revision, nil
		case len(ahead) == 0 && isResigning(*own):
			return nil, 0, ErrResigned
		case len(ahead) == 0:
			return nil, r.Revision, nil
		}
	}
}

// deposed notes that the own entry is gone.
func (c *candidacy) deposed() error {
	c.joins.own = 0
	return ErrDeposed
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
	c.events.elected(now.Term)
	c.learn(now.Candidate)
	for {
		var cause error
		_, err := c.watchKey(t.ctx, c.entry, rev+1, func(event broker.Event) bool {
			cause = c.verdict(event)
			return cause != nil
		})
		switch {
		case cause != nil:
			return cause
		case t.ctx.Err() != nil:
			return context.Cause(t.ctx)
		case err != nil:
			c.watchFailed(t.ctx, fmt.Errorf("lead: %w", err))
		}
		if _, rev, err = c.look(t.ctx, nil); err != nil {
			return err
		}
	}
}

// verdict is what an event of the own entry means for the term.
func (c *candidacy) verdict(event broker.Event) error {
	switch {
	case event.Deleted, event.KV.Created != c.joins.own, event.KV.Session != c.session.ID():
		return c.deposed()
	case isResigning(event.KV):
		return ErrResigned
	default:
		return nil
	}
}
