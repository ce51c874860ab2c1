package etcd

import (
	"context"
	"errors"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

// A connection with a session in a folder observes other sessions. The first few
// sessions, in the order of their keys, are lookouts: they observe all sessions. The
// others observe the lookouts, and all sessions for a while once none of the lookouts
// is renewed. So the total number of observations grows with the number of sessions and
// not with its square. If the lookouts die together with others, those are ended within
// three TTLs.
const (
	// lookouts is their number.
	lookouts = 20
	// A lookout observes every TTL*sessions/lookShare, but at least every TTL/lookSeldom
	// and at most every TTL/lookOften. Another session observes every TTL/lookOther.
	lookOften, lookSeldom, lookShare, lookOther = 10, 4, 80, 2
	// If no lookout is renewed for TTL/lookAlarm, the other sessions observe all sessions
	// for lookAlarmed TTLs.
	lookAlarm, lookAlarmed = 4, 3
	// lookPauseMin is the shortest time between two observations.
	lookPauseMin = 10 * time.Millisecond
)

// sight is the last observation of a session's pulse.
type sight struct {
	modified broker.Revision
	// since is the end of the request that first showed this revision.
	since time.Time
	ttl   time.Duration
}

// observer observes the sessions of a folder.
type observer struct {
	folder string
	sights map[broker.SessionID]sight
	// moved is when it last saw that a session was renewed, and alarmed until when it
	// observes all sessions although it is no lookout.
	moved, alarmed time.Time
}

// found is the result of one observation.
type found struct {
	// silent are the sessions without a renewal for a whole TTL; ended are those that
	// were ended but still have keys; pulseless are those without a pulse, which nobody
	// can end.
	silent, ended, pulseless []broker.SessionID
	// there are all sessions that have keys.
	there map[broker.SessionID]bool
	// next is when the next session will have been silent for a TTL, zero for never.
	next time.Time
}

// look evaluates a listing of the folder that was complete at now.
func (o *observer) look(kvs []broker.KV, now time.Time) found {
	type keys struct{ lease, pulse *broker.KV }
	sessions := map[broker.SessionID]keys{}
	var order []broker.SessionID
	for i := range kvs {
		_, id, name, ok := sessionkey.Parse(kvs[i].Key)
		if !ok {
			continue
		}
		k, known := sessions[id]
		if !known {
			order = append(order, id)
		}
		if name == sessionkey.Lease {
			k.lease = &kvs[i]
		} else {
			k.pulse = &kvs[i]
		}
		sessions[id] = k
	}
	f := found{there: map[broker.SessionID]bool{}}
	sights := map[broker.SessionID]sight{}
	for _, id := range order {
		k := sessions[id]
		f.there[id] = true
		switch {
		case k.lease == nil:
			f.ended = append(f.ended, id)
			continue
		case k.pulse == nil:
			f.pulseless = append(f.pulseless, id)
			continue
		}
		ttl, err := time.ParseDuration(string(k.lease.Value))
		if err != nil {
			continue // it ends with its lease
		}
		s, known := o.sights[id]
		ttl = max(ttl, s.ttl) // it never changes, but a listing may be damaged
		seen := known && s.modified == k.pulse.Modified
		if !seen {
			s.modified, s.since = k.pulse.Modified, now
			o.moved = now
		}
		s.ttl = ttl
		sights[id] = s
		if k.lease.Session == 0 {
			ttl = max(ttl, grantLate)
		}
		due := s.since.Add(ttl)
		if seen && !due.After(now) {
			f.silent = append(f.silent, id)
		} else if f.next.IsZero() || due.Before(f.next) {
			f.next = due
		}
	}
	o.sights = sights
	return f
}

// endings returns the transactions for what was found. They end silent sessions, check that
// ended ones are ended, and put the pulse of pulseless ones. Without TLS a listing may have
// been damaged on its way, so each transaction checks what the listing showed.
func (o *observer) endings(f found) (txns []broker.Txn) {
	for _, id := range f.silent {
		lease, pulse := sessionkey.Of(o.folder, id, sessionkey.Lease), sessionkey.Of(o.folder, id, sessionkey.Pulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Modified(pulse, o.sights[id].modified)},
			Then: []broker.Op{broker.Delete(lease)},
		})
	}
	for _, id := range f.ended {
		lease, pulse := sessionkey.Of(o.folder, id, sessionkey.Lease), sessionkey.Of(o.folder, id, sessionkey.Pulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Exists(pulse), broker.Absent(lease)},
			Then: []broker.Op{broker.Read(pulse)}, // it stays until the lease is revoked, for other observers
		})
	}
	for _, id := range f.pulseless {
		lease, pulse := sessionkey.Of(o.folder, id, sessionkey.Lease), sessionkey.Of(o.folder, id, sessionkey.Pulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Exists(lease), broker.Absent(pulse)},
			Then: []broker.Op{broker.PutSession(pulse, nil, id)},
		})
	}
	return txns
}

// over returns the sessions that have ended, from the results of endings.
func (f found) over(results []broker.Result) (ids []broker.SessionID) {
	for i, id := range slices.Concat(f.silent, f.ended) {
		if results[i].OK {
			ids = append(ids, id)
		}
	}
	return ids
}

// hold records a session that this connection renews, and starts an observer of its folder
// if there is none.
func (b *Broker) hold(id broker.SessionID, h held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[id] = h
	if b.life.Err() != nil || b.observed[h.folder] {
		return
	}
	b.observed[h.folder] = true
	b.calls.Go(func() { b.observe(h.folder) })
}

// holds returns a session that this connection renews.
func (b *Broker) holds(id broker.SessionID) (held, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.sessions[id]
	return h, ok
}

func (b *Broker) letGo(id broker.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, id)
}

// own returns this connection's sessions in a folder. If there are none, it records that the
// folder's observer ends.
func (b *Broker) own(folder string) map[broker.SessionID]held {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := map[broker.SessionID]held{}
	for id, h := range b.sessions {
		if h.folder == folder {
			own[id] = h
		}
	}
	if len(own) == 0 {
		delete(b.observed, folder)
	}
	return own
}

// observe observes a folder until this connection has no session in it.
func (b *Broker) observe(folder string) {
	o := &observer{folder: folder}
	for {
		own := b.own(folder)
		if len(own) == 0 {
			return
		}
		ttl := containerTTL
		for _, h := range own {
			ttl = min(ttl, h.ttl)
		}
		wait := ttl / lookOften
		if kvs, lookout, err := b.sessionsIn(folder, own, time.Now().Before(o.alarmed)); err == nil {
			f := o.look(kvs, time.Now())
			b.endSilent(o, f)
			b.keepLeases(own, f, lookout)
			wait = ttl / lookOther
			if lookout {
				wait = min(max(ttl*time.Duration(len(f.there))/lookShare, ttl/lookOften), ttl/lookSeldom)
			}
			if !lookout && time.Since(o.moved) > ttl/lookAlarm {
				o.alarmed = time.Now().Add(lookAlarmed * ttl)
				wait = ttl / lookOften
			}
			wait = wait/2 + rand.N(wait)
			if !f.next.IsZero() {
				wait = min(wait, time.Until(f.next))
			}
		}
		if !pause.For(b.life, max(wait, lookPauseMin)) {
			return
		}
	}
}

// sessionsIn lists the keys of all sessions if one of ours is a lookout or alarmed, and
// those of the lookouts otherwise.
func (b *Broker) sessionsIn(folder string, own map[broker.SessionID]held, alarmed bool) (kvs []broker.KV, lookout bool, err error) {
	if alarmed {
		kvs, _, err = broker.Collect(b.life, b, folder)
		return kvs, true, err
	}
	answer, err := anywhere(b.life, b, "list", folder, toAnother, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.KV.Get(ctx, folder, clientv3.WithPrefix(), clientv3.WithLimit(2*lookouts+1)) // whole leaves the last one out
	})
	if err != nil {
		return nil, false, err
	}
	if answer.More && len(answer.Kvs) == 0 {
		return nil, false, broker.NewError("list", folder, broker.ErrUnavailable, errMisfit)
	}
	kvs = toKVs(answer.Kvs)
	if !answer.More {
		return kvs, true, nil
	}
	kvs = whole(kvs)
	for _, kv := range kvs {
		if _, id, _, ok := sessionkey.Parse(kv.Key); ok {
			if _, ours := own[id]; ours {
				kvs, _, err = broker.Collect(b.life, b, folder)
				return kvs, true, err
			}
		}
	}
	return kvs, false, nil
}

// whole removes the last session from an incomplete listing.
func whole(kvs []broker.KV) []broker.KV {
	last, _ := path.Split(kvs[len(kvs)-1].Key)
	return slices.DeleteFunc(kvs, func(kv broker.KV) bool { return strings.HasPrefix(kv.Key, last) })
}

// endSilent ends sessions. If that fails, the next observation finds them again.
func (b *Broker) endSilent(o *observer, f found) {
	b.discard(b.life, o.folder, f.over(b.Commit(b.life, o.endings(f)...))...)
}

// keepLeases renews the leases of this connection's sessions if that is due, and forgets
// sessions that are gone.
func (b *Broker) keepLeases(own map[broker.SessionID]held, f found, complete bool) {
	for id, h := range own {
		if complete && !f.there[id] {
			b.letGo(id)
			continue
		}
		now := time.Now()
		if now.Sub(h.leased) < containerRenew {
			continue
		}
		_, err := b.renewLease(b.life, id)
		switch {
		case err == nil:
			b.leased(id, now)
		case errors.Is(err, broker.ErrSessionExpired):
			b.letGo(id)
		}
	}
}

// leased records when the lease of a session was renewed.
func (b *Broker) leased(id broker.SessionID, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h, ok := b.sessions[id]; ok {
		h.leased = at
		b.sessions[id] = h
	}
}
