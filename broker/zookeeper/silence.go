package zookeeper

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/internal/pause"
)

// A server ends a session when it has heard nothing of it for its timeout, rounded up to whole
// ticks. That is up to three seconds later than its holder gives it up: the timeout has to cover the
// half of a tick in which the leader need not know of a renewal, and the time between two pings. So
// brokers that have sessions end others' that they have not seen renewed for their TTL. The server's
// timeout remains for those of the last process, and for whatever goes wrong here.
//
// That is sound for the reasons for which it is on etcd. A renewal is seen later than it was sent,
// and its holder counts from the sending. The session's znode is deleted if it is still as it was
// seen, and without it no renewal succeeds. Only then is the session closed. An event arrives before
// what a read on the same connection shows of the same change, so that what was read after a TTL
// without an event is what was there when it began.

const (
	// silenceLooks is how often within the shortest TTL of its sessions a broker looks for silent ones.
	silenceLooks = 20
	// silenceLookMin and silenceLookMax limit the time between two looks.
	silenceLookMin, silenceLookMax = 10 * time.Millisecond, time.Second
	// closesMax is how many sessions a broker closes at once: each takes a connection, of which a
	// server allows few for each address (maxClientCnxns).
	closesMax = 8
)

// sights has when the sessions below the chroot were last seen to be renewed, on one link.
type sights struct {
	mu sync.Mutex
	of map[string]heard // by path
}

// heard is the last event of a session's znode.
type heard struct {
	// since is when it arrived, ttl that of the session, zero while it is not known.
	since, ttl time.Duration
}

// take records an event, from the goroutine that reads the connection.
func (s *sights) take(e wire.Event, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Type == wire.EventDeleted {
		delete(s.of, e.Path)
		return
	}
	s.of[e.Path] = heard{since: now, ttl: s.of[e.Path].ttl}
}

// meet records a session that was there before the first event.
func (s *sights) meet(path string, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.of[path]; !known {
		s.of[path] = heard{since: now}
	}
}

// due returns the sessions that have been silent for their TTL, or for the least one if theirs is not
// known yet.
func (s *sights) due(least, now time.Duration) map[string]heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := map[string]heard{}
	for path, seen := range s.of {
		if now-seen.since >= max(seen.ttl, least) {
			due[path] = seen
		}
	}
	return due
}

// learn records the TTL of a session, and reports whether it has been silent for that long.
func (s *sights) learn(path string, was heard, ttl, now time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, there := s.of[path]
	if !there {
		return false
	}
	seen.ttl = ttl
	s.of[path] = seen
	return seen.since == was.since && now-seen.since >= ttl
}

// endSilent ends the sessions of others that are silent, until the broker is closed.
func (b *Broker) endSilent() {
	var met *link
	for wait := silenceLookMax; pause.For(b.life, wait); {
		ttl := b.shortestTTL()
		if wait = silenceLookMax; ttl == 0 {
			continue
		}
		wait = min(max(ttl/silenceLooks, silenceLookMin), silenceLookMax)
		l, err := b.linked(b.life)
		if err == nil && l != met {
			if err = b.meetSessions(l); err == nil {
				met = l
			}
		}
		if err == nil {
			b.endDue(l, l.sights.due(ttl, b.now()))
		}
	}
}

// shortestTTL returns the shortest TTL of the sessions that this broker renews, zero if there are
// none.
func (b *Broker) shortestTTL() (shortest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.isRenewed() && (shortest == 0 || s.granted < shortest) {
			shortest = s.granted
		}
	}
	return shortest
}

// meetSessions finds the sessions that are there on a link.
func (b *Broker) meetSessions(l *link) error {
	dir := b.layout.chroot + sessionsDir
	answer := l.do(b.life, wire.MultiRead([]wire.Read{wire.GetChildren(dir)}))[0]
	if answer.Err != nil {
		return answer.Err
	}
	for _, name := range answer.Reply.Results[0].Children {
		l.sights.meet(dir+"/"+name, b.now())
	}
	return nil
}

// endDue reads sessions that may be silent, and ends those that are. What it could not end is found
// again; if a znode is gone and nobody has closed its session, a server ends that.
func (b *Broker) endDue(l *link, due map[string]heard) {
	for paths := range slices.Chunk(slices.Sorted(maps.Keys(due)), readsMax) {
		var reads []wire.Read
		for _, path := range paths {
			reads = append(reads, wire.GetData(path))
		}
		answer := l.do(b.life, wire.MultiRead(reads))[0]
		if answer.Err != nil {
			return
		}
		var silent []*session
		var deletions []wire.Request
		for i, path := range paths {
			z, err := toZnode(answer.Reply.Results[i])
			if err != nil || !z.there {
				continue // the event of its end follows
			}
			if s := b.sessionOf(z); s != nil && l.sights.learn(path, due[path], s.granted, b.now()) {
				silent, deletions = append(silent, s), append(deletions, wire.Single(wire.Delete(path, z.stat.Version)))
			}
		}
		var closing sync.WaitGroup
		slots := make(chan struct{}, closesMax)
		for i, answer := range l.do(b.life, deletions...) {
			if answer.Err == nil {
				slots <- struct{}{}
				closing.Go(func() {
					b.closeSilent(silent[i])
					<-slots
				})
			}
		}
		closing.Wait()
	}
}

// closeSilent closes a session that its holder can renew no more. If that fails, a server ends it.
func (b *Broker) closeSilent(s *session) {
	ctx, cancel := context.WithTimeout(b.life, b.config.RequestTimeout)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connect(ctx) == nil {
		_, _ = s.conn.Do(ctx, wire.CloseSession())
		s.conn.Close()
	}
}

// isSession reports whether a path is that of a session's znode.
func (l layout) isSession(path string) bool {
	return strings.HasPrefix(path, l.chroot+sessionsDir+"/")
}

// sessionOf returns the session that the data of its znode describe, nil if they do not.
func (b *Broker) sessionOf(z znode) *session {
	d, ok := parseSessionData(z.data)
	if !ok || z.stat.EphemeralOwner == 0 {
		return nil
	}
	return &session{broker: b, id: broker.SessionID(z.stat.EphemeralOwner), password: d.password, granted: d.ttl, timeout: min(d.timeout, b.timeoutFor(sessionTTLMax))}
}
