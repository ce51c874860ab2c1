package etcd

import (
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Whoever has a session in a folder observes those that are there. Each looks seldom
// where there are many, so that all together look about as often whatever their number.
const (
	// lookOften and lookSeldom bound the time between two looks, as a part of a TTL.
	lookOften, lookSeldom = 10, 1
	// lookShare is for how many sessions it would be a whole TTL.
	lookShare = 100
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
		if !known || s.modified != k.pulse.Modified {
			s = sight{k.pulse.Modified, now, ttl}
		}
		sights[id] = s
		due := s.since.Add(s.ttl)
		if !due.After(now) {
			f.silent = append(f.silent, id)
		} else if f.next.IsZero() || due.Before(f.next) {
			f.next = due
		}
	}
	o.sights = sights
	return f
}

// endings are the transactions for what a look has shown: those that end what is silent,
// in order, and then those that ask whether what has no pulse is there.
func (o *observer) endings(f found) (txns []broker.Txn) {
	for _, id := range f.silent {
		lease, pulse := sessionKey(o.folder, id, keyLease), sessionKey(o.folder, id, keyPulse)
		txns = append(txns, broker.Txn{
			If:   []broker.Cond{broker.Modified(pulse, o.sights[id].modified)},
			Then: []broker.Op{broker.Delete(lease)},
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
		if kvs, _, err := broker.Collect(b.life, b, folder); err == nil {
			f := o.look(kvs, time.Now())
			b.endSilent(o, f)
			b.keepLeases(own, f)
			wait = min(max(ttl*time.Duration(len(f.there))/lookShare, ttl/lookOften), ttl/lookSeldom)
			wait = wait/2 + rand.N(wait)
			if !f.next.IsZero() {
				wait = min(wait, time.Until(f.next))
			}
		}
		if !pause(b.life, max(wait, lookPauseMin)) {
			return
		}
	}
}

// endSilent does what a look asks for. What fails is seen again.
func (b *Broker) endSilent(o *observer, f found) {
	if len(f.silent)+len(f.pulseless) > 0 {
		results := b.Commit(b.life, o.endings(f)...)
		for i, id := range f.silent {
			if results[i].OK {
				f.ended = append(f.ended, id)
			}
		}
	}
	for _, id := range f.ended {
		_ = b.revokeLease(b.life, id)
	}
}

// keepLeases renews the leases of this connection's sessions, which is due seldom, and
// forgets those that are gone.
func (b *Broker) keepLeases(own map[broker.SessionID]held, f found) {
	for id, h := range own {
		if !f.there[id] {
			b.letGo(id)
			continue
		}
		now := time.Now()
		if now.Sub(h.leased) < containerRenew {
			continue
		}
		if _, e := b.renewLease(b.life, id); e == nil {
			h.leased = now
			b.mu.Lock()
			if _, still := b.sessions[id]; still {
				b.sessions[id] = h
			}
			b.mu.Unlock()
		}
	}
}
