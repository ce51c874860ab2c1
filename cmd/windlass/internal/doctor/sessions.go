package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/session"
)

// silent returns the sessions of nodes, candidates and holders of tasks that nobody renews, as far
// as the clocks say, in the order of the keys.
func (s *snapshot) silent(now time.Time) (ids []broker.SessionID) {
	for _, k := range s.order {
		held := k.Kind == keys.NodeInfo || k.Kind == keys.Candidate || k.Kind == keys.Owner
		if held && !slices.Contains(ids, k.Session) && s.renewals.Overdue(k.Session, now) {
			ids = append(ids, k.Session)
		}
	}
	return ids
}

// nameOf says whose session it is.
func (s *snapshot) nameOf(id broker.SessionID) string {
	name := fmt.Sprintf("the holder of tasks with session %x", int64(id))
	for _, k := range s.order {
		switch {
		case k.Session != id:
		case k.Kind == keys.NodeInfo:
			return "node " + k.Name
		case k.Kind == keys.Candidate:
			name = fmt.Sprintf("candidate %s of election %s", path.Base(k.Key), k.Name)
		}
	}
	return name
}

// noteSilent reports the sessions that were not renewed between two looks that are further apart
// than their TTL.
func (s *snapshot) noteSilent(n *notes, before *snapshot, now time.Time) {
	for _, id := range s.silent(now) {
		if s.renewals[id] == before.renewals[id] && before != s {
			n.add(Problem, "session(s) that nobody renews, and nobody has ended: their processes are dead or cut off, and what they hold is shown as held",
				`"windlass doctor --fix" ends them, and so does a node or a candidate that is started, once it has been up for a session TTL`,
				s.nameOf(id)+", "+view.NotRenewed(s.renewals[id].At, now))
		}
	}
}

// longestTTL is the longest of some sessions and of the nodes, and at least that of the doctor.
func (d *Doctor) longestTTL(s *snapshot, ids []broker.SessionID) time.Duration {
	ttl := d.ttl()
	for _, n := range s.nodes {
		if granted, err := time.ParseDuration(n.info.SessionTTL); err == nil {
			ttl = max(ttl, min(granted, session.TTLMax))
		}
	}
	for _, id := range ids {
		ttl = max(ttl, min(s.renewals[id].TTL, session.TTLMax))
	}
	return ttl
}

// endSilent ends the sessions that nobody renews. It keeps a session for that long, which ends
// those of others as those of nodes do.
func (d *Doctor) endSilent(ctx context.Context) (fixed []Fixed, err error) {
	s, err := read(ctx, d.Broker, d.Space)
	if err != nil {
		return nil, err
	}
	silent := s.silent(time.Now())
	if _, known := s.checkLayout(); !known || len(silent) == 0 {
		return nil, nil
	}
	wait := 3*d.longestTTL(s, silent) + 5*time.Second // where those who look after all have died as well
	if d.Waiting != nil {
		d.Waiting(wait, "sessions that nobody renews are ended once they were watched for their TTL")
	}
	own, release, err := session.Keep(ctx, d.Broker, session.Config{Folder: d.Space.Sessions()})
	if err != nil {
		return nil, fmt.Errorf("end sessions that nobody renews: %w", err)
	}
	defer release()
	defer func() { _ = own.Close(context.WithoutCancel(ctx)) }() // it expires
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := session.AwaitRenewal(bounded, d.Broker, d.Space.Sessions(), silent...); err != nil && (ctx.Err() != nil || bounded.Err() == nil) {
		return nil, fmt.Errorf("end sessions that nobody renews: %w", err)
	}
	left, err := session.ReadRenewals(ctx, d.Broker, d.Space.Sessions())
	if err != nil {
		return nil, err
	}
	for _, id := range silent {
		f := Fixed{What: "end the session of " + s.nameOf(id), Done: true}
		switch now, there := left[id]; {
		case there && now != s.renewals[id]:
			continue // it is renewed: its clock is another one than ours
		case there:
			f.Done, f.Why = false, fmt.Sprintf("it has not ended within %v", wait)
		}
		fixed = append(fixed, f)
	}
	return fixed, nil
}
