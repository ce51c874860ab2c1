package election

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// place is where a candidate stands in line.
type place struct {
	// ahead has those before it, in their order. Those that were not read again may
	// have left since.
	ahead []broker.KV
	// leader is the current leader, empty if that was not read.
	leader string
	// rev is when.
	rev broker.Revision
}

// follow waits in the queue until this candidate is first, leads, and returns why that
// ended.
func (c *candidacy) follow(t *turn) error {
	ctx := t.ctx
	p, err := c.find(ctx)
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
		default:
			if p.leader != "" {
				c.learn(p.leader)
			}
			if err := c.awaitGone(ctx, p.ahead[len(p.ahead)-1], p.rev+1); err != nil {
				c.watchFailed(ctx, fmt.Errorf("follow: %w", err))
			}
		}
		p, err = c.look(ctx, p.ahead)
	}
	return err
}

// find lists the line.
func (c *candidacy) find(ctx context.Context) (place, error) {
	var line []broker.KV
	var rev broker.Revision
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		line, rev, err = lineOf(ctx, c.broker, c.member.space, c.name)
		return err
	})
	if err != nil {
		return place{}, err
	}
	own := slices.IndexFunc(line, func(kv broker.KV) bool { return kv.Key == c.entry })
	if own < 0 {
		return place{}, ErrDeposed
	}
	for i := range line[:own] {
		line[i].Value = nil // a thousand candidates keep a thousand of them
	}
	return c.standing(&line[own], line[:own:own], 0, rev)
}

// readMax is how many of those ahead are read by name: the number that one request can
// read besides the candidate's own entry.
const readMax = broker.TxnOpsMax - 1

// look reads the candidate's own entry and those that were ahead. No others can be
// ahead: a candidate that rejoins goes to the end. If there are more than one request
// can read, look reads only the nearest one, and lists the queue if that one has left.
func (c *candidacy) look(ctx context.Context, ahead []broker.KV) (place, error) {
	unread := 0
	if len(ahead) > readMax {
		unread = len(ahead) - 1
	}
	names := []string{c.entry}
	for _, kv := range ahead[unread:] {
		names = append(names, kv.Key)
	}
	read, rev, err := c.read(ctx, names...)
	if err != nil {
		return place{}, err
	}
	there := slices.Clone(ahead[:unread])
	for i, kv := range ahead[unread:] {
		if isEntry(read[i+1], kv.Created) {
			there = append(there, kv)
		}
	}
	if unread > 0 && len(there) == unread {
		return c.find(ctx)
	}
	return c.standing(read[0], there, unread, rev)
}

// standing is where an entry stands behind others, the first of which were not read.
func (c *candidacy) standing(own *broker.KV, ahead []broker.KV, unread int, rev broker.Revision) (place, error) {
	p := place{ahead: ahead, rev: rev}
	switch {
	case !c.isOwn(own):
		return place{}, ErrDeposed
	case len(ahead) == 0 && isResigning(*own):
		return place{}, ErrResigned // asked before it knew that it is the first
	case len(ahead) > 0 && unread == 0:
		p.leader = candidateOf(ahead[0].Key)
	}
	return p, nil
}

// isOwn reports whether kv is the candidate's entry and belongs to its session.
func (c *candidacy) isOwn(kv *broker.KV) bool {
	return isEntry(kv, c.joins.own) && kv.Session == c.session.ID()
}

// isGone reports whether an event of the own key means that the own entry no longer
// exists, or does not belong to the session. What is left of it is deleted at the end
// of the turn.
func (c *candidacy) isGone(event broker.Event) bool { return event.Deleted || !c.isOwn(&event.KV) }

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
			c.watchFailed(t.ctx, fmt.Errorf("lead: %w", err))
		}
		p, err := c.look(t.ctx, nil) // the first stays the first
		if err != nil {
			return err
		}
		rev = p.rev
	}
}
