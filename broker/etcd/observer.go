package etcd

import (
	"context"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// A connection with a session in a folder observes other sessions. The first few
// sessions, in the order of their keys, are lookouts: they observe all sessions. The
// others observe the lookouts, and all sessions for a while once none of the lookouts
// is renewed. So the total number of observations grows with the number of sessions and
// not with its square. If the lookouts die together with others, those are ended within
// three TTLs.
const (
	// lookouts is how many there are.
	lookouts = 20
	// lookOften and lookSeldom bound the time between two looks of a lookout, as a part of a
	// TTL, and lookShare is for how many lookouts it would be a whole one. lookOther is
	// that of another one.
	lookOften, lookSeldom, lookShare, lookOther = 10, 4, 80, 2
	// lookAlarm is the part of a TTL after which somebody among lookouts that live would
	// have been renewed, and lookAlarmed is for how many TTLs the others then look at all.
	lookAlarm, lookAlarmed = 4, 3
	// lookPauseMin is the least time between two looks.
	lookPauseMin = 10 * time.Millisecond
)

// sight is what was last seen of a session's pulse.
type sight struct {
	modified broker.Revision
	// since is when it was first seen so, the end of the request that showed it.
	since time.Time
	ttl   time.Duration
}

// observer is one who looks at the sessions of a folder.
type observer struct {
	folder string
	sights map[broker.SessionID]sight
	// moved is when a look last saw somebody renewed, and alarmed until when it looks at
	// all although it is no lookout.
	moved, alarmed time.Time
}

// found is what one look has shown.
type found struct {
	// silent are the sessions without a renewal for a whole TTL; ended are those that
	// somebody has ended and whose keys are still there; pulseless are those that nobody
	// can end.
	silent, ended, pulseless []broker.SessionID
	// there are all whose keys are there.
	there map[broker.SessionID]bool
	// next is when the next one will have been silent for a TTL, zero for never.
	next time.Time
}

// look takes a listing of the folder that has been read by now.
func (o *observer) look(kvs []broker.KV, now time.Time) found {
	type keys struct{ lease, pulse *broker.KV }
	sessions := map[broker.SessionID]keys{}
	var order []broker.SessionID
	for i := range kvs {
		_, id, name, ok := parseSessionKey(kvs[i].Key)
		if !ok {
			continue
		}
		k, known := sessions[id]
		if !known {
			order = append(order, id)
		}
		if name == keyLease {
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
			continue // its lease will end it
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

// endings are the transactions for what a look has shown: those that end what is silent,
// those that see whether others have ended what seems ended, and those that ask whether
// what has no pulse is there. Without TLS a listing may be damaged on its way, so nothing
// follows from one alone.
func (o *observer) endings(f found) (txns []broker.Txn) {
	for _, id := range f.silent {
		lease, pulse := sessionKey(o.folder, id, keyLease), sessionKey(o.folder, id, keyPulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Modified(pulse, o.sights[id].modified)},
			Then: []broker.Op{broker.Delete(lease)},
		})
	}
	for _, id := range f.ended {
		lease, pulse := sessionKey(o.folder, id, keyLease), sessionKey(o.folder, id, keyPulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Exists(pulse), broker.Absent(lease)},
			Then: []broker.Op{broker.Read(pulse)}, // which stays until the lease is revoked, and shows it to others
		})
	}
	for _, id := range f.pulseless {
		lease, pulse := sessionKey(o.folder, id, keyLease), sessionKey(o.folder, id, keyPulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Exists(lease), broker.Absent(pulse)},
			Then: []broker.Op{broker.PutSession(pulse, nil, id)},
		})
	}
	return txns
}

// over are the sessions that have been ended, by the results of endings.
func (f found) over(results []broker.Result) (ids []broker.SessionID) {
	for i, id := range slices.Concat(f.silent, f.ended) {
		if results[i].OK {
			ids = append(ids, id)
		}
	}
	return ids
}

// hold notes a session that this connection renews, and sees to an observer for it.
func (b *Broker) hold(id broker.SessionID, h held) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[id] = h
	if b.closed || b.observed[h.folder] {
		return
	}
	b.observed[h.folder] = true
	b.calls.Go(func() { b.observe(h.folder) })
}

// holds tells whether this connection renews a session.
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

// own are this connection's sessions in a folder. When there are none any more, the folder
// has no observer either.
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

// observe observes a folder until this connection has no session there.
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

// sessionsIn lists the keys of all sessions for a lookout and who is alarmed, and of the
// lookouts for others.
func (b *Broker) sessionsIn(folder string, own map[broker.SessionID]held, alarmed bool) (kvs []broker.KV, lookout bool, err error) {
	if alarmed {
		kvs, _, err = broker.Collect(b.life, b, folder)
		return kvs, true, err
	}
	answer, e := anywhere(b.life, b, "list", folder, b.toAnother(), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.KV.Get(ctx, folder, clientv3.WithPrefix(), clientv3.WithLimit(2*lookouts+1)) // one more, which whole leaves out
	})
	if e != nil {
		return nil, false, e
	}
	if answer.More && len(answer.Kvs) == 0 {
		return nil, false, broker.NewError("list", folder, broker.ErrUnavailable, errMisfit)
	}
	for _, kv := range answer.Kvs {
		kvs = append(kvs, toKV(kv))
	}
	if !answer.More {
		return kvs, true, nil
	}
	kvs = whole(kvs)
	for _, kv := range kvs {
		if _, id, _, ok := parseSessionKey(kv.Key); ok {
			if _, ours := own[id]; ours {
				kvs, _, err = broker.Collect(b.life, b, folder)
				return kvs, true, err
			}
		}
	}
	return kvs, false, nil
}

// whole leaves out the last session of a listing that was cut off.
func whole(kvs []broker.KV) []broker.KV {
	last, _ := path.Split(kvs[len(kvs)-1].Key)
	return slices.DeleteFunc(kvs, func(kv broker.KV) bool { return strings.HasPrefix(kv.Key, last) })
}

// endSilent does what a look asks for. What fails is seen again.
func (b *Broker) endSilent(o *observer, f found) {
	txns := o.endings(f)
	if len(txns) == 0 {
		return
	}
	b.discard(b.life, o.folder, f.over(b.Commit(b.life, txns...))...)
}

// keepLeases renews the leases of this connection's sessions, which is due seldom, and
// forgets those that are gone.
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
		_, e := b.renewLease(b.life, id)
		switch {
		case e == nil:
			b.leased(id, now)
		case e.Kind == broker.ErrSessionExpired:
			b.letGo(id)
		}
	}
}

// leased notes when the lease of a session was renewed.
func (b *Broker) leased(id broker.SessionID, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h, ok := b.sessions[id]; ok {
		h.leased = at
		b.sessions[id] = h
	}
}
